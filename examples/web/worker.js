// new Worker("worker.js", { type: "module" }), for load's options.worker
import { serve } from "./transformer.js";

serve(self);
