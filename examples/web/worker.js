// The Worker for the option `worker` of load: new Worker("worker.js", { type: "module" })
import { serve } from "./transformer.js";

serve(self);
