/* transformer.h - v0.7.0 - encoder-decoder Transformers in C - MIT or public domain, your choice

   Runs trained encoder-decoder Transformers (Vaswani et al. 2017, arXiv:1706.03762, and their
   descendants) inside any C or C++ program: translation, transliteration, any text or id sequence
   into another. It is one file and needs only libc and libm.

   It runs on the CPU. It does not train (tools/train.py does), chat or download. It translates a
   text sentence by sentence. Write this

       #define TRANSFORMER_IMPLEMENTATION

   before you include this file in *one* C or C++ file. That file then contains the implementation.
   All other files just include the header.

   Model files and texts may be untrusted: every size, offset, shape, name and id is checked before
   it is used, and bad input ends in a status and a message, never in a crash. The library never
   exits, aborts, asserts, prints, or reads the environment or the locale (chapter 12).

   To translate as the model file says (examples/hello.c is this program):

       static int print(void *user, const tfm_translated *t) {
           const char *text = t->status == TFM_OK ? t->text.data : t->message;
           return fprintf((FILE *)user, "%s\n", text) < 0;
       }
       ...
       tfm_error err;
       tfm_model *model = NULL;
       tfm_translator *translator = NULL;
       tfm_request text = tfm_request_text(source, strlen(source));
       if (tfm_model_load_file(&model, "zh-en.safetensors", NULL, &err) != TFM_OK ||
           tfm_translator_create(&translator, model, NULL, &err) != TFM_OK ||
           tfm_translator_run(translator, &text, 1, print, stdout, &err) != TFM_OK)
           ... err.text says what went wrong, and where
       tfm_translator_free(translator);
       tfm_model_free(model);

   CONTENTS (search for the tag)

       >>manual        15 chapters, each about one thing that you may want to do
       >>options       macros that you may define before including this file
       declarations
       >>api-status    1. version, status, errors
       >>api-memory    2. allocator and arena
       >>api-tensor    3. tensors
       >>api-modules   4. modules: positions, norm, linear, SSRU, attention, layers, stacks, masks
       >>api-files     5. safetensors files
       >>api-model     6. models
       >>api-translator 7. translators: texts of any length and number, on several threads
       >>api-session   8. sessions: encode, forward; search: start, step, results, scores, attention
       >>api-text      9. text: tokenize, translate
       implementation
       >>base          10. includes, sizes, messages   >>tokenizers    25. the kinds of text
       >>memory        11. allocator, pool, arena      >>vocabulary    26. words, characters, bytes
       >>tensors       12. tensors and views of them   >>sentencepiece 27. SentencePiece
       >>threads       13. threads                     >>bytebpe       28. byte-level BPE
       >>kernels       14. kernel sets, plain loops    >>added         29. added tokens
       >>packed        15. packed weights, products    >>tokens        30. texts to ids and back
       >>positions     16. positional encodings        >>weights       31. named tensors to a model
       >>modules       17. norm, linear, FFN, SSRU     >>session       32. sessions
       >>attention     18. masks and attention         >>search        33. beam search, sampling
       >>stack         19. layers and stacks           >>sentences     34. where sentences end
       >>utf8          20. UTF-8                       >>text          35. text in, text out
       >>json          21. JSON                        >>translator    36. translators
       >>safetensors   22. the file format             >>vectors       37. vector kernels, template
       >>config        23. the model's config          >>licence       MIT or public domain
       >>model         24. what a model has

   Legend: B batch, S source length, T target length, L length of either, D model width, H heads,
   K key width of a head, W value width of a head, F feed-forward width, V vocabulary, N layers,
   D_in width of the embeddings that a caller gives, D_memory width of the encoder's output.
*/

/* >>manual ----------------------------------------------------------------------------------------

   1. Translate a text              8. Fit into little memory
   2. Know what can go wrong        9. Use one module on your own tensors
   3. Choose how to search         10. Rely on the numbers
   4. Decode step by step          11. Run fast
   5. Choose a language            12. Read files and texts that you do not trust
   6. The model file               13. Find out why an output is wrong
   7. Use several threads          14. What a version promises
                                   15. Glossary


   1. TRANSLATE A TEXT
   -------------------
   Load a model once, create a translator, and give it texts, as the example at the top of this file
   does. A text may have any length and any number of sentences. The translator calls your function
   with each translation, or with the reason why there is none, in the order of the texts:

       tfm_translator_options how = {0};             zeros: as the model file says, one thread
       how.threads = 4;
       how.memory = 1 << 30;                         bytes of all sessions together
       tfm_translator_create(&translator, model, &how, &err);
       tfm_translator_run(translator, requests, n, done, user, &err);     of an array
       tfm_translator_pull(translator, next, done, user, &err);           of a file or a pipe

   The translator decides what is translated together and by which thread. A translation has the
   same bits in each case. A text that fails does not stop the others.

   You can use each level of the header without the levels above it:

       translator  texts in, texts out.
       session     tfm_session: one decode at a time, with its KV cache. One thread uses it at a
                   time. tfm_translate and tfm_translate_batch translate texts that fit its limits.
       model       tfm_model: immutable weights and config. Any number of threads may share it.
       modules     tfm_multi_head_attention, tfm_encoder ...: plain functions over your tensors.

   Most models read one sentence at a time, and their files say so (tfm_config.sentences). For such
   a model the sentences of a text are translated one by one, and joined with the white space that
   stood between the sentences. A text of one sentence, or for a model that reads whole texts, goes
   to the model as it is. If a sentence fails, its text fails, and the message has the number of the
   sentence, counted from 1, and its place in the text.

   With a session you hold the memory: you choose its limits, and give it a buffer.

       tfm_request requests[2];
       tfm_text out[2];
       limits.max_batch = 2;
       limits.decoding = tfm_model_decoding(model);    zeros are greedy decoding here
       tfm_session_create(&session, model, &limits, &err);
       requests[0] = tfm_request_text("Guten Tag.", 10);
       requests[1] = tfm_request_text(line, strlen(line)), requests[1].seed = 7;
       status = tfm_translate_batch(session, requests, 2, NULL, out, buffer, sizeof buffer, &err);
       tfm_session_free(session);

   If your buffer is too small, tfm_translation_size says how many bytes you need, and
   tfm_translation_get writes the translations without a second decode.

   The model file says how a text becomes tokens (tfm_text_kind has the kinds). The ids and texts
   are equal to those of the packages sentencepiece 0.2.3 and tokenizers 0.23. tfm_session_tokenize
   returns the ids. A blank text has none; only the empty text is blank for byte-level BPE.


   2. KNOW WHAT CAN GO WRONG
   -------------------------
   Every function that can fail returns a tfm_status. It also fills the tfm_error that you pass
   (NULL is allowed) with a message that names the tensor, field or number. When a function fails,
   its outputs are unchanged.

   A sentence that is longer than the session's limits is TFM_E_TOO_LONG, and the message has both
   numbers. Nothing is cut unless you set options.truncate. A translation ends at an end token or at
   max_length, and tfm_result.finish says which of the two happened.

   By default a request that fails makes the whole call fail, and the message begins with its number
   ("request 2: ", counted from 0). With options.skip_errors = 1 the others are translated, and the
   result of that request has the status and the message. Its text is empty, like that of a blank
   source; both have one result, whose finish is TFM_FINISH_BLANK.

   Requests, results, bytes, token ids, and the layers and heads of a config count from 0. Two
   things count from 1: the sentences in a message, as people count them, and
   options.attention_layer and attention_head, where 0 stands for the default.


   3. CHOOSE HOW TO SEARCH
   -----------------------
   Fill in a tfm_decode_options. All zero is greedy decoding. This asks for the two best of four
   beams:

       tfm_session_options limits = {0};       tfm_decode_options options = {0};
       limits.max_batch = 16;                  options.beam = 4;
       limits.max_beam = 4;                    options.n_best = 2;
                                               options.length_penalty = 1;
       tfm_session_decode(session, requests, n, &options, &err);
       for (rank = 0; rank < tfm_result_count(session, i); rank++)
           tfm_result_get(session, i, rank, &result, &err);         of request i

   Many model files say how their makers decode: tfm_model_decoding. Copy these options to change
   some. Calls without options use those that you gave when you created the session
   (tfm_session_options.decoding), and otherwise decode greedily.

   Beam search. Let b be options.beam. In each step the search looks at the 2 b best continuations.
   One that ends becomes a result if it is among the b best. The b best of those that do not end go
   on to the next step. A score is the sum of the log-probabilities, with that of the end token,
   divided by length^length_penalty. If two hypotheses have the same score, the one that was ahead
   stays ahead; after that the lower id wins. With beam 1 the search is greedy: it stops at the
   first end token, and stop, patience, length_penalty and coverage_penalty do not change the
   tokens. A repetition_penalty still does.

   Suppressed tokens. A token that an option suppresses keeps its share of the probability, as in
   Hugging Face's beam search. CTranslate2 distributes that share over the other tokens.

   Rules of your own. The search calls options.edit_logits before it chooses a token. Your function
   can suppress tokens or change their logits: for a list of allowed words, for a grammar, for the
   timestamps of speech (examples/allowed.c). tfm_session_score does not call it, because it
   computes what the model says.

   Shortlists. If you know which target tokens a sentence may need, a shortlist saves most of the
   work of the output projection. You give one for all requests (options.shortlist), or the model's
   lexicon makes one for each sentence (options.lexical_shortlist).

   Sampling. The random number behind a token depends only on the seed, the number of the sample and
   the position. Equal sentences with equal seeds get equal samples, so give each request its own
   seed.

   Interactive translation. Give what the user accepted as request.prefix, and ask for
   options.alternatives. To favour a prefix without forcing it, set options.prefix_bias.

   Drafts. If you have a guess of the translation, give it as request.draft to a session with
   max_draft: what the sentence had before somebody changed a word, a near match of a translation
   memory, the output of a smaller model with the same vocabulary. Greedy decoding then takes fewer
   steps and gives the same bits: ids, scores, logits and attention, with any draft and with all
   other options of greedy decoding. Where a draft is wrong, the search finds the place at which it
   is right again, so a changed, added or missing word costs few steps. Drafts save most time with
   one sentence at a time. While 5 or more sentences run, no draft is used.

   Attention. Alignments and the coverage penalty need a session with attention = 1. It keeps the
   cross-attention of each target token.

   tools/README.md has a table of these options beside those of CTranslate2 and Hugging Face.


   4. DECODE STEP BY STEP
   ----------------------
   Call tfm_session_start once and tfm_session_step until no request runs. Your program drives the
   loop, so streaming, progress, time limits and cancelling need no callback:

       int32_t running = 1;
       if (tfm_session_start(session, requests, n, NULL, &err) != TFM_OK) ...
       while (running && !the_user_has_had_enough)
           if (tfm_session_step(session, &running, &err) != TFM_OK) ...
       for (i = 0; i < n; i++)
           tfm_result_get(session, i, 0, &result, &err);     ids, length, score, finish

   tfm_session_decode does all of this in one call. While a request still runs, its results are the
   hypotheses so far, and tfm_result_text writes their texts, so a program can show them while it
   translates. tfm_session_stop ends one request, and the others go on.

   Prompts. The decoder of some models, such as Whisper, reads more than a start token: earlier
   text, a language, a task. Give these ids as request.prompt. tfm_session_start computes prompts
   and forced tokens in one pass. That takes less time than a step for each token and gives the same
   bits. Only if the session keeps attention (attention = 1), forced tokens take a step each.

   Sources that are not texts. tfm_request has four kinds of source; examples/vectors.c shows the
   two of vectors. Embeddings are what transformers calls inputs_embeds: the model applies
   src_projection, positions and the embedding norm, but does not multiply by embedding_scale.

   The same source once more. tfm_session_restart decodes the sources of the session's last call
   with other options, prompts or prefixes. The session still has their encodings. requests NULL
   means the same sources in tfm_session_forward and tfm_session_score.


   5. CHOOSE A LANGUAGE
   --------------------
   A model with several languages has a token for each, and its file lists the tokens by language
   code. Give the two codes to a translator (source_language, target_language), or call
   tfm_languages_set(session, "eng_Latn", "fra_Latn", &err) before you translate with a session. A
   request can have languages of its own.

   M2M100 and NLLB begin the source with its own language and the target with the target's language
   (config: src_language "source", tgt_language "forced"). Marian begins the source with the
   target's language (src_language "target"). With such a model a single text can choose for itself:
   ">>fra<< Good morning." The label counts for all sentences of the text.


   6. THE MODEL FILE
   -----------------
   A model is one safetensors file: parameters under PyTorch's names, a config in JSON, and the
   vocabularies. tools/convert.py writes it from the checkpoints of other programs. If you write one
   yourself, tools/convert/README.md has every tensor and every key of the config. The file says
   whether the model reads sentences or whole texts (tfm_sentences); session options override it.


   7. USE SEVERAL THREADS
   ----------------------
   A translator with several threads gives each of them batches, and a single batch to all of them.
   There is no global state.

   With sessions: for throughput, create one session for each of your threads over one model, and
   give each session batches of sentences of similar length. examples/threads.c shows it. For the
   latency of a single sentence, set threads in the session's options. The session then starts its
   own threads (POSIX or Windows), or your program's own parallel-for runs the parts.

   After fork, the child process may use the model and all sessions without threads of their own.


   8. FIT INTO LITTLE MEMORY
   -------------------------
   tfm_session_bytes returns the exact size of a session's only allocation. Most of it is the KV
   cache, which grows with max_batch * (max_source + max_beam * max_target). Lower max_target first:
   many programs set it too high. cache = TFM_DTYPE_F16 halves the cache.

   tfm_model_load_file reads the file into one buffer and rearranges the matrices within it. So a
   loaded model takes the memory of its file. If tfm_model_options.weights asks for another type,
   the converted copy takes more memory; build/quantize writes a file of that type instead. A packed
   file that is mapped takes only the pages that are used.

   tfm_model_load borrows your buffer, so keep the buffer until the model is freed. Vectors,
   embeddings and vocabularies are used in place, and matrices are copied (see in_place).

   To put a model into your program, turn the file into an array (xxd -i, the #embed of C23, or the
   linker's -b binary), and pass it to tfm_model_load. examples/embedded.c shows it.


   9. USE ONE MODULE ON YOUR OWN TENSORS
   -------------------------------------
   A tensor is a view of your memory with strides. This computes multi-head attention
   (examples/modules.c is the whole program):

       tfm_tensor x = tfm_tensor_3d(data, TFM_DTYPE_F32, B, L, D), out = ..., weights = ...;
       tfm_attention_weights w = {0};
       tfm_attention_inputs inputs = {0};
       tfm_arena scratch = tfm_arena_make(memory, bytes);
       inputs.query = inputs.key = inputs.value = &x;
       w.n_heads = 8;
       tfm_attention_unpack(&w, &in_proj_weight, &in_proj_bias, &err);
       w.out.weight = out_proj_weight;
       tfm_multi_head_attention(&out, &weights, &w, &inputs, &scratch, &err);

   For newer models, w.rotary has rotary positions, w.key and w.value may have fewer heads than
   w.query, and w.left and w.right bound a window. tfm_rotary turns a tensor of your own.

   Modules allocate nothing. They take scratch memory from a tfm_arena of yours. To learn how much
   memory a call needs, make the same call with an arena from tfm_arena_measuring. It checks the
   arguments, computes nothing, and leaves the size in arena.peak.

   If your data are in PyTorch's [L, B, D] layout, pass tfm_tensor_swap(tensor, 0, 1). In masks,
   true means "may not be attended to", as in torch.nn.MultiheadAttention. A query whose keys are
   all masked gets zero weights and a zero context, never NaN.


   10. RELY ON THE NUMBERS
   -----------------------
   Same bits. A sentence has the same output, score and attention, to the bit, alone and in any
   batch, in any order, with any number of threads, and on every machine whose arithmetic is
   "fused" (tfm_arithmetic_string). The plain loops of >>kernels define these bits:

     - Products with packed weights add the columns one after the other. Products with rows (keys of
       attention, in_place) add column k in lane k mod 16, and then the lanes by halves. Each
       addition is a fused multiply-add, which rounds once.
     - Softmax adds number k in lane k mod 16, the lanes by halves, and each 1024 numbers in double.
       Norms have 8 lanes and add them in double every 512 numbers.
     - Sums of int8 are exact. Rounding is to nearest, ties to even.
     - exp, erf, log, pow and sine are our own. Pragmas forbid compilers to fuse operations
       that are written apart. (Clang ignores them if it is called with -ffp-contract=fast.)

   tfm_arithmetic_string returns the name in the first column:

       arithmetic              where                        exact = 1 in tfm_model_options
       "fused"                 AVX2 and later, NEON,        changes nothing
                               plain C
       "separate"              SSE2, WebAssembly            makes it "fused", 2.4 times slower
       "fused, pairs of bf16"  BF16 weights with AMX, with  makes it "fused"
                               AVX512-BF16 on AMD, or with
                               BF16 on ARM
       "BLAS"                  TRANSFORMER_BLAS             changes nothing
       "excess precision"      x87 (-m32 without            changes nothing
                               -mfpmath=sse), s390x with
                               gcc -std=c99

   With encoder_attention = TFM_DTYPE_BF16, "fused" promises nothing between machines. With "BLAS",
   and with x87 compiled as C++ or by gcc without -std=c99 or another ISO mode, the bits of a
   sentence may change with its batch. tests/data/bits.txt has checksums that every "fused" machine
   must reproduce.

   Close to PyTorch. Arithmetic is f32. With F32 weights, modules differ from PyTorch by at most
   1e-5 and logits of whole models by 1e-4, absolute. These options round more:

       F16 and BF16 weights         are widened as they are read; only their own rounding remains
       BF16 weights with AMX, with  the activations are rounded to bf16 too; sums are f32
         AVX512-BF16 on AMD, or
         with BF16 on ARM
       I8 weights                   activations are quantized with one scale per token, or by
                                    NAME_input_factor; the int32 sums are exact
       cache = TFM_DTYPE_F16        keys and values of the decoder are rounded once, when they are
                                    stored
       encoder_attention =          queries, keys, values and attention weights of the encoder are
         TFM_DTYPE_BF16             rounded to bf16; sums are f32

   tools/bench/README.md has what each of these costs in logits and in BLEU.


   11. RUN FAST
   ------------
   Compile with -O2; no other flag is needed. The header chooses the fastest kernel set that the CPU
   has (TRANSFORMER_KERNELS lists them). tfm_cpu_string returns its name.

   - Use int8 weights (tfm_model_options.weights, or build/quantize). Decoding one sentence
     reads every weight of the decoder once per token, so fewer bytes mean less time. On CPUs with
     AVX2 and without VNNI, build/quantize int8 --bits 7 makes encoding about a tenth faster: the
     kernels see by themselves that all weights are from -64 to 63. Sums stay exact.
   - Translate batches. A step reads the weights once for the whole batch. Sentences of similar
     length belong together.
   - For throughput use one worker per core, each with its own session and batches of 32 to 128.
     Workers stop gaining when together they read as fast as the memory can deliver. build/inspect
     MODEL --cores N --bandwidth GB/s estimates where that is.
   - Use a shortlist if the model has one.

   Huge pages. On Linux on x86-64 and aarch64, the header asks the system for huge pages (madvise)
   for a model's memory, if the memory comes from malloc and is 4 MB or more. This makes loading and
   single sentences faster. Such memory begins at a huge page, so 2 MB more are asked of malloc and
   mostly stay unused, and up to 1 MB more for a file. If a huge page takes over 2 ms, as on a host
   that has taken memory back, the rest of the file gets small pages. To turn this off, define
   TFM_MALLOC(bytes) malloc(bytes) and TFM_FREE(pointer) free(pointer).

   AMX. On Linux, the first call that chooses kernels (loading a model, tfm_cpu_string) asks for
   permission to use AMX (arch_prctl). The permission holds for the whole process: the stack frame
   of a signal grows by 8 kB in threads that compute, and sigaltstack refuses a stack that is too
   small for it (see AT_MINSIGSTKSZ). If the system refuses, VNNI computes the same bits of int8.
   With TRANSFORMER_KERNELS 5 or less, the library asks for nothing.


   12. READ FILES AND TEXTS THAT YOU DO NOT TRUST
   ----------------------------------------------
   Whatever the bytes of a file or text are, a call stays inside the memory that it was given or
   allocated, returns, leaks nothing, and reports an error when it fails. A file is checked as a
   whole before it is used, and until then no allocation is larger than four times the file plus 16
   kB. A text, a vocabulary and a SentencePiece file have at most 2147483647 bytes. Reading one file
   never opens another. Control characters in names do not reach messages. Output is valid UTF-8,
   but may contain line breaks and control characters if the model has tokens for them.

   Tokenizing a text of n bytes takes a time in proportion to n; at worst to n times the length of
   the longest piece or added token; and for BPE to n log n. To bound the time of a translation,
   bound max_source, max_length and beam.

   Not promised: that a translation is true or fit to print, and anything about pointers, sizes and
   tensors that your program passes. The bytes given to tfm_model_load must not change while the
   model exists. If somebody else can cut a file short, do not map it; tfm_model_load_file reads a
   copy.

   tests/README.md says how this is tested. If an input makes the library crash, hang, leak or read
   past an end, that is a bug. Please report it as .github/SECURITY.md says.


   13. FIND OUT WHY AN OUTPUT IS WRONG
   -----------------------------------
   Numbers differ from PyTorch's. tools/convert/README.md lists the settings to check.

   The output repeats or never ends. The limit of 2 * source + 16 tokens ends it, and finish is
   TFM_FINISH_HIT_LENGTH. The usual causes are a wrong start id, a source without the end token of
   the training (src_end), and text that is unlike the training text. no_repeat_ngram and
   repetition_penalty treat the symptom.


   14. WHAT A VERSION PROMISES
   ---------------------------
   A version is MAJOR.MINOR.PATCH. Before 1.0 a new MINOR may rename and remove what it likes:
   .github/CHANGELOG.md has the old and the new names. From 1.0 on:

                      PATCH    MINOR                               MAJOR
       source         same     names are only added                may change
       ABI            same     structs may grow at their ends:     may change
                               compile again (tfm_sizes_check)
       model files    load     files of all earlier versions load  files of the MAJOR before load
       packed files   load     as model files                      may need build/quantize again
       bits           same     may change; the changes say so      may change

   An older library may refuse the files of a newer one: it names the key that it does not know. A
   name that goes away stays for one MINOR, with a line in the changes.


   15. GLOSSARY
   ------------
   alignment    for each target token, the source token that it attends to most
   blank        a source without tokens: its translation is empty, and the model does not run
   draft        a guess of the target, which a search verifies
   first token  of the target: given and not searched, such as a language
   forced       given by your program or by the model instead of searched; a forced token scores 0
   hypothesis   a target, finished or not, that the search keeps
   kernel set   the inner loops for one instruction set
   KV cache     the keys and values of earlier positions, which later steps read
   memory       the encoder's output, from which cross-attention computes its keys and values
   pad          an id that fills a row after its sentence; it is masked
   request      a source to decode, with what belongs to it alone (tfm_request)
   row          of a batch: one sentence; of a matrix: one output channel
   session      what other engines call a context or a state
   shortlist    the target tokens that a search may choose from
   SSRU         Marian's simpler simple recurrent unit (tfm_ssru), which replaces self-attention in
                the decoders of Firefox's translators
   teacher-forced   the decoder reads a given target instead of its own output
------------------------------------------------------------------------------------------------- */

/* >>options ---------------------------------------------------------------------------------------

   Define these in every file that includes the header, with the same values:
       TRANSFORMER_STATIC       functions are static, so that two copies can be in one program
       TFM_DEF                  the linkage of public functions (default: extern)
       TRANSFORMER_NO_STDIO     leaves out the file functions and stdio.h
       TRANSFORMER_NO_TEXT      leaves out vocabularies and the functions of sections 7 and 9
       TRANSFORMER_LIBRARY      the implementation is in a library that was compiled elsewhere:
                                TRANSFORMER_IMPLEMENTATION then does nothing, and loading a model
                                first calls tfm_sizes_check

   Define these where the implementation is compiled:
       TRANSFORMER_IMPLEMENTATION
       TFM_MALLOC(bytes), TFM_FREE(pointer)    both or none; default: malloc and free, with huge
                                pages for weights on Linux (chapter 11)
       TRANSFORMER_BLAS         cblas_sgemm computes matrix products. You give the include path
                                and -lopenblas
       TRANSFORMER_KERNELS n    limits the kernel set that is chosen at run time. 0: plain C. On
                                x86-64 1: SSE2, 2: AVX2, 3: AVX-512, 4: AVX-512 or AVX2 with VNNI,
                                5: with BF16, 6: with AMX. On aarch64 1: NEON, 2: with dot products,
                                3: with I8MM, 4: with I8MM and BF16. On WebAssembly with -msimd128
                                1: SIMD128. Default: 6
       TRANSFORMER_FILE         the name of this file if you renamed it (default: "transformer.h").
                                The file includes itself once for each vector kernel set
       TRANSFORMER_MMAP         enables tfm_model_options.map and includes <sys/mman.h>
       TRANSFORMER_NO_MODULES   leaves out those functions of section 4 that the same file does not
                                call. Define it before the file's first #include of the header
       TRANSFORMER_NO_SIMD      plain C only, without <immintrin.h> and its like
       TRANSFORMER_NO_THREADS   no threads of its own, without <pthread.h> and <windows.h>. Your
                                program's parallel-for still works. (Before glibc 2.34, threads
                                need -pthread.)
------------------------------------------------------------------------------------------------- */

#ifndef TRANSFORMER_H
#define TRANSFORMER_H

#include <stddef.h>
#include <stdint.h>

#ifndef TFM_DEF
#ifdef TRANSFORMER_STATIC
#if defined(__GNUC__)
#define TFM_DEF static __attribute__((unused))
#else
#define TFM_DEF static
#endif
#else
#define TFM_DEF extern
#endif
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* >>api-status ====================================================================================
   1. VERSION, STATUS, ERRORS
   ============================================================================================== */

#define TFM_VERSION_MAJOR 0
#define TFM_VERSION_MINOR 7
#define TFM_VERSION_PATCH 0
#define TFM_VERSION "0.7.0"

/* Returns the version of the implementation, for instance "0.7.0". */
TFM_DEF const char *tfm_version(void);

/* Returns the kernel set that this machine runs, such as "AVX2 and FMA" or "plain C". */
TFM_DEF const char *tfm_cpu_string(void);

/* What a call returns, and what it means (tfm_status_text). */
/* clang-format off */
#define TFM_STATUS_TABLE(X)                                                        \
    X(TFM_OK, "success")                                                           \
    X(TFM_E_ARGUMENT, "an argument is missing or out of range")                    \
    X(TFM_E_SHAPE, "a tensor has the wrong rank, shape or stride")                 \
    X(TFM_E_DTYPE, "a tensor has the wrong element type")                          \
    X(TFM_E_OVERFLOW, "a size does not fit the machine's integers")                \
    X(TFM_E_MEMORY, "the allocator returned no memory")                            \
    X(TFM_E_ARENA, "the scratch arena is too small")                               \
    X(TFM_E_IO, "a file cannot be opened or read")                                 \
    X(TFM_E_FORMAT, "a file breaks the rules of the safetensors format")           \
    X(TFM_E_CONFIG, "a model's config is missing, malformed or contradictory")     \
    X(TFM_E_TENSOR, "a model's tensor is missing, unknown or does not fit")        \
    X(TFM_E_TOKEN, "a token or token id is not in the vocabulary")                 \
    X(TFM_E_TOO_LONG, "longer than the session or the model allows")               \
    X(TFM_E_TOO_SMALL, "the output buffer is too small")                           \
    X(TFM_E_UTF8, "a text is not valid UTF-8")                                     \
    X(TFM_E_STATE, "the session is not at the point that this call needs")         \
    X(TFM_E_NO_TEXT, "the model has no vocabulary")

#define TFM_X(id, text) id,
typedef enum tfm_status { TFM_STATUS_TABLE(TFM_X) TFM_STATUS_COUNT } tfm_status;
#undef TFM_X
/* clang-format on */

/* A failed call fills this in. text is terminated. Control characters in names become '?'. */
typedef struct tfm_error {
    tfm_status status;
    char text[256];
} tfm_error;

/* Returns the meaning of a status, or "unknown status" for any other number. */
TFM_DEF const char *tfm_status_text(tfm_status status);

/* >>api-memory ====================================================================================
   2. ALLOCATOR AND ARENA
   ============================================================================================== */

/* Your own allocator. All zero means malloc and free (TFM_MALLOC, TFM_FREE); otherwise give both
   functions. allocate returns memory that is aligned for any type, or NULL. */
typedef struct tfm_allocator {
    void *(*allocate)(void *user, size_t bytes);
    void (*release)(void *user, void *pointer);
    void *user;
} tfm_allocator;

/* A stack of scratch memory over your buffer. Each piece starts at a multiple of 64 bytes. */
typedef struct tfm_arena {
    unsigned char *data; /* NULL while measuring */
    size_t size;         /* bytes from data */
    size_t used;         /* bytes in use now */
    size_t peak; /* the most bytes that were needed so far, plus 63: data may have any address */
    int32_t measuring; /* 1: counts allocations without making them */
} tfm_arena;

/* Returns an arena over your memory of this many bytes. */
TFM_DEF tfm_arena tfm_arena_make(void *memory, size_t bytes);

/* Returns an arena without memory that only counts: make a call with it, then read peak. */
TFM_DEF tfm_arena tfm_arena_measuring(void);

/* Allocates count * size bytes from the arena. If the arena only measures, *pointer is NULL. To
   release memory, restore the earlier value of .used. Errors: TFM_E_ARENA, TFM_E_OVERFLOW. */
TFM_DEF tfm_status tfm_arena_take(tfm_arena *arena, int64_t count, size_t size, void **pointer,
                                  tfm_error *err);

/* >>api-tensor ====================================================================================
   3. TENSORS
   A tensor is a view and owns no memory. Elements of the last dimension are adjacent. The other
   dimensions have strides, in elements, so a transposed batch needs no copy.
   ============================================================================================== */

/* The element types of the safetensors format. The library computes with F32, F16, BF16 and I8. */
typedef enum tfm_dtype {
    TFM_DTYPE_F32,         /* float: 1 sign, 8 exponent, 23 mantissa bits */
    TFM_DTYPE_F16,         /* IEEE half: 1, 5, 10 */
    TFM_DTYPE_BF16,        /* bfloat16: 1, 8, 7, the upper half of a float */
    TFM_DTYPE_F64,         /* double */
    TFM_DTYPE_BOOL,        /* a byte: 0 or 1 */
    TFM_DTYPE_U8,          /* uint8_t */
    TFM_DTYPE_I8,          /* int8_t */
    TFM_DTYPE_I16,         /* int16_t */
    TFM_DTYPE_U16,         /* uint16_t */
    TFM_DTYPE_I32,         /* int32_t */
    TFM_DTYPE_U32,         /* uint32_t */
    TFM_DTYPE_I64,         /* int64_t */
    TFM_DTYPE_U64,         /* uint64_t */
    TFM_DTYPE_C64,         /* two floats: real and imaginary part */
    TFM_DTYPE_F8_E5M2,     /* floats of 8 bits: 5 of exponent, 2 of mantissa */
    TFM_DTYPE_F8_E4M3,     /* 4 and 3 */
    TFM_DTYPE_F8_E8M0,     /* 8 and 0: a power of two */
    TFM_DTYPE_F8_E4M3FNUZ, /* 4 and 3, without infinity and negative zero */
    TFM_DTYPE_F8_E5M2FNUZ, /* 5 and 2, without infinity and negative zero */
    TFM_DTYPE_F6_E2M3,     /* floats of 6 bits: 2 and 3 */
    TFM_DTYPE_F6_E3M2,     /* 3 and 2 */
    TFM_DTYPE_F4,          /* floats of 4 bits */
    TFM_DTYPE_COUNT
} tfm_dtype;

/* Returns "F32", "BF16" ..., or "?" for a number that is no type. */
TFM_DEF const char *tfm_dtype_name(tfm_dtype dtype);
/* Returns the number of bits of an element, or 0 for a number that is no type. */
TFM_DEF int tfm_dtype_bits(tfm_dtype dtype);

#define TFM_MAX_RANK 8

typedef struct tfm_tensor {
    void *data; /* inputs are only read; NULL: no tensor */
    tfm_dtype dtype;
    int rank;
    int64_t dims[TFM_MAX_RANK];
    int64_t strides[TFM_MAX_RANK]; /* in elements; the last is 1 */
} tfm_tensor;

/* Return row-major tensors over data. */
TFM_DEF tfm_tensor tfm_tensor_make(void *data, tfm_dtype dtype, int rank, const int64_t *dims);
TFM_DEF tfm_tensor tfm_tensor_1d(void *data, tfm_dtype dtype, int64_t d0);
TFM_DEF tfm_tensor tfm_tensor_2d(void *data, tfm_dtype dtype, int64_t d0, int64_t d1);
TFM_DEF tfm_tensor tfm_tensor_3d(void *data, tfm_dtype dtype, int64_t d0, int64_t d1, int64_t d2);
TFM_DEF tfm_tensor tfm_tensor_4d(void *data, tfm_dtype dtype, int64_t d0, int64_t d1, int64_t d2,
                                 int64_t d3);

/* Returns the view with dimensions a and b exchanged: [L, B, D] as [B, L, D]. Neither may be the
   last dimension. */
TFM_DEF tfm_tensor tfm_tensor_swap(tfm_tensor tensor, int a, int b);

/* >>api-modules ===================================================================================
   4. MODULES
   Tensors are F32 unless a comment says otherwise, and inputs may have any row strides. In
   tfm_layer_norm, tfm_softmax, tfm_activate, the layers and the stacks, out may be the input of the
   same shape. In other functions out must not overlap an input. Weights are [out, in] as in
   PyTorch. A weight with data NULL is absent. Every function returns TFM_E_ARGUMENT, TFM_E_SHAPE or
   TFM_E_DTYPE if its arguments do not fit together, and TFM_E_ARENA if its scratch arena is too
   small. err may be NULL.
   ============================================================================================== */

#if defined(TRANSFORMER_NO_MODULES) && defined(TRANSFORMER_IMPLEMENTATION) &&                      \
    !defined(TRANSFORMER_LIBRARY) /* static functions that nothing calls are left out */
#define TFM__NO_MODULES
#pragma push_macro("TFM_DEF")
#undef TFM_DEF
#ifdef __GNUC__
#define TFM_DEF static __attribute__((unused))
#else
#define TFM_DEF static
#endif
#endif

/* ---- masks ---- */

/* Which keys a query may not attend to. All zero: it may attend to all. A key is masked if any of
   these masks it (key_padding_mask, attn_mask and is_causal of torch.nn.MultiheadAttention). */
typedef struct tfm_masks {
    tfm_tensor key_padding;     /* BOOL [B, S]: true = this key is a pad */
    tfm_tensor attention;       /* BOOL [T, S], [B*H, T, S], or [B, T, S] for all heads alike */
    const int32_t *key_lengths; /* [B]: keys from key_lengths[b] on are pads */
    int32_t causal;             /* 1: query t sees keys 0 .. t */
} tfm_masks;

/* Sets mask[b, s] = (ids[b, s] == pad). mask: BOOL [B, S]; ids: [B, S]. */
TFM_DEF tfm_status tfm_mask_from_ids(tfm_tensor *mask, const int32_t *ids, int32_t pad,
                                     tfm_error *err);
/* Sets mask[b, s] = (s >= lengths[b]). mask: BOOL [B, S]; lengths: [B]. */
TFM_DEF tfm_status tfm_mask_from_lengths(tfm_tensor *mask, const int32_t *lengths, tfm_error *err);
/* Sets mask[t, s] = (s > t). mask: BOOL [T, S]. This is generate_square_subsequent_mask of
   torch.nn.Transformer. */
TFM_DEF tfm_status tfm_mask_causal(tfm_tensor *mask, tfm_error *err);

/* ---- positions ---- */

/* How a model adds the position p of a token to its embedding of D numbers. */
typedef enum tfm_position_kind {
    TFM_POSITION_KIND_SINUSOIDAL, /* PE(p, 2i) = sin(p / base^(2i/D)), PE(p, 2i+1) = cos of the
                                     same; arXiv:1706.03762 section 3.5 */
    TFM_POSITION_KIND_SINUSOIDAL_HALVES, /* sines in the first half of the columns, cosines in the
                                            second (tensor2tensor, fairseq, Marian) */
    TFM_POSITION_KIND_SINUSOIDAL_PER_INDEX, /* column j has its own exponent, sin or cos of
                                               p / base^(2j/D), and row 0 is zero */
    TFM_POSITION_KIND_LEARNED,              /* row p of a table (BERT, BART) */
    TFM_POSITION_KIND_NONE,                 /* nothing */
    TFM_POSITION_KIND_COUNT
} tfm_position_kind;

typedef struct tfm_position_options {
    tfm_position_kind kind;
    int64_t first;         /* position of row 0, with the model's offset if it has one */
    double base;           /* 0 means 10000 */
    int32_t divisor_half;  /* 0: exponent 2i/D. 1: i/(D/2 - 1) (fairseq, M2M100) */
    int32_t double_angles; /* 1: frequency and angle are not rounded to float as in PyTorch code */
    tfm_tensor table;      /* learned: [n, D] */
} tfm_position_options;

/* Computes out[l] = PE(first + l). out: [L, D] or [B, L, D]. With lengths [B], the rows of a
   sentence after its length are zero, like pads in M2M100. Errors: TFM_E_TOO_LONG (more positions
   than a learned table has). */
TFM_DEF tfm_status tfm_positions(tfm_tensor *out, const tfm_position_options *options,
                                 const int32_t *lengths, tfm_error *err);

/* ---- norm, linear, softmax, feed-forward ---- */

/* What a norm computes of x: y = ... * weight + bias. */
typedef enum tfm_norm_kind {
    TFM_NORM_KIND_LAYER_NORM,          /* (x - mean) / sqrt(var + eps), biased variance:
                                          torch.nn.LayerNorm, arXiv:1607.06450 */
    TFM_NORM_KIND_LAYER_NORM_UNBIASED, /* (x - mean) / (std + eps), unbiased std: Annotated
                                          Transformer */
    TFM_NORM_KIND_RMS_NORM,            /* x / sqrt(mean of x^2 + eps): arXiv:1910.07467, T5 */
    TFM_NORM_KIND_COUNT
} tfm_norm_kind;

typedef struct tfm_norm_weights {
    tfm_tensor weight, bias; /* [D] each; each may be absent */
    tfm_norm_kind kind;
    double eps; /* 0 means 1e-5 for TFM_NORM_KIND_LAYER_NORM, else 1e-6 */
} tfm_norm_weights;

/* Normalizes over the last dimension. out, x: [..., D]. weights may be NULL, like all zero. */
TFM_DEF tfm_status tfm_layer_norm(tfm_tensor *out, const tfm_tensor *x,
                                  const tfm_norm_weights *weights, tfm_error *err);

typedef struct tfm_linear_weights {
    tfm_tensor weight; /* [out, in] */
    tfm_tensor bias;   /* [out] or absent */
} tfm_linear_weights;

/* Computes out = x weight^T + bias (torch.nn.functional.linear). x: [..., in], out: [..., out]. */
TFM_DEF tfm_status tfm_linear(tfm_tensor *out, const tfm_tensor *x,
                              const tfm_linear_weights *weights, tfm_error *err);

/* Computes out = exp(x - max) / sum exp(x - max) over the last dimension. */
TFM_DEF tfm_status tfm_softmax(tfm_tensor *out, const tfm_tensor *x, tfm_error *err);

/* What a feed-forward computes of each x between its two products. */
typedef enum tfm_activation {
    TFM_ACTIVATION_RELU,         /* max(0, x) */
    TFM_ACTIVATION_GELU,         /* x/2 * (1 + erf(x / sqrt(2))): arXiv:1606.08415 */
    TFM_ACTIVATION_GELU_TANH,    /* x/2 * (1 + tanh(0.79788456 (x + 0.044715 x^3))) */
    TFM_ACTIVATION_SWISH,        /* x / (1 + exp(-x)): arXiv:1710.05941, torch's SiLU */
    TFM_ACTIVATION_GELU_SIGMOID, /* x / (1 + exp(-1.702 x)): Marian's gelu, "quick_gelu" */
    TFM_ACTIVATION_COUNT
} tfm_activation;

/* Computes out = activation(x), element by element. */
TFM_DEF tfm_status tfm_activate(tfm_tensor *out, const tfm_tensor *x, tfm_activation activation,
                                tfm_error *err);

typedef struct tfm_ffn_weights {
    tfm_linear_weights linear1; /* [F, D] */
    tfm_linear_weights linear2; /* [D, F] */
    tfm_activation activation;
    tfm_linear_weights gate; /* [F, D] or absent */
} tfm_ffn_weights;

/* Computes out = linear2(activation(linear1(x))), arXiv:1706.03762 section 3.3; with a gate,
   linear2(activation(gate(x)) * linear1(x)), arXiv:2002.05202. out, x: [..., D]. */
TFM_DEF tfm_status tfm_feed_forward(tfm_tensor *out, const tfm_tensor *x,
                                    const tfm_ffn_weights *weights, tfm_arena *scratch,
                                    tfm_error *err);

/* ---- recurrence ---- */

/* A simpler simple recurrent unit: D19-5632 of the ACL Anthology, Marian's dec-cell ssru. */
typedef struct tfm_ssru_weights {
    tfm_linear_weights input; /* [W, D] */
    tfm_linear_weights gate;  /* [W, D] */
} tfm_ssru_weights;

/* Computes c_t = g_t * c_(t-1) + (1 - g_t) * input(x_t) with g_t = 1 / (1 + exp(-gate(x_t))), and
   out_t = max(0, c_t). x: [B, T, D], out: [B, T, W]. state [B, W] is c before the first position
   and becomes c of the last; NULL: zeros. A call for T positions has the bits of T calls. */
TFM_DEF tfm_status tfm_ssru(tfm_tensor *out, tfm_tensor *state, const tfm_ssru_weights *weights,
                            const tfm_tensor *x, tfm_arena *scratch, tfm_error *err);

/* ---- attention ---- */

/* What an attention reads. masks NULL: every query attends to all keys. */
typedef struct tfm_attention_inputs {
    const tfm_tensor *query, *key, *value;
    const tfm_masks *masks;
} tfm_attention_inputs;

/* Computes context = softmax(scale * query key^T, masked) value; arXiv:1706.03762 section 3.2.1,
   torch.nn.functional.scaled_dot_product_attention.
   query [B, T, K], key [B, S, K], value [B, S, W], context [B, T, W], weights [B, T, S] or NULL, or
   all of them with heads: [B, H, ...]. scale 0 means 1/sqrt(K). */
TFM_DEF tfm_status tfm_scaled_dot_product_attention(tfm_tensor *context, tfm_tensor *weights,
                                                    const tfm_attention_inputs *inputs,
                                                    double scale, tfm_arena *scratch,
                                                    tfm_error *err);

/* Relative positions (T5, arXiv:1910.10683 section 2.1): table[bucket(s - t), head] is added to the
   scaled score of query t and key s. In each direction, half of the buckets hold one distance each.
   The others hold longer and longer ranges up to max_distance, and the last also what is beyond. */
typedef struct tfm_relative_positions {
    tfm_tensor table;     /* [buckets, H]; absent: none. At least 2 buckets, 4 if not causal */
    int32_t max_distance; /* 0 means 128; larger than the number of buckets with one distance */
    int32_t causal;       /* 1: keys after the query share the query's bucket (decoders).
                             0: half of the buckets are for keys after the query (encoders) */
} tfm_relative_positions;

/* Rotary positions (arXiv:2104.09864): pair i of the first 2n columns of each query and key turns
   by the angle position * frequencies[i], which is rounded to float as in PyTorch code. Frequency i
   of a base is base^(-i/n). */
typedef struct tfm_rotary_positions {
    tfm_tensor frequencies; /* [n]; absent: none */
    int32_t interleaved;    /* 0: a pair is columns i and n + i. 1: columns 2i and 2i + 1 */
} tfm_rotary_positions;

/* The projections of one attention. K and W follow from the shapes and n_heads. Keys and values may
   have G heads, fewer than queries: head h reads number h / (H/G) of them (arXiv:2305.13245). */
typedef struct tfm_attention_weights {
    tfm_linear_weights query; /* [H*K, D] */
    tfm_linear_weights key;   /* [G*K, width of the key input] */
    tfm_linear_weights value; /* [G*W, width of the value input] */
    tfm_linear_weights out; /* [D, H*W]; absent: the output is the contexts of all heads, joined */
    int32_t n_heads;
    double scale;                    /* 0 means 1/sqrt(K) */
    tfm_relative_positions relative; /* a decoder layer's cross_attn must not have one */
    tfm_rotary_positions rotary;     /* nor this: it turns queries and keys from position 0 on */
    tfm_norm_weights query_norm, key_norm; /* of each head, before it turns: [K] each; or absent */
    int32_t left, right; /* query t sees the keys s with t - left < s < t + right. 0, 0: all */
    double cap;          /* scores become cap * tanh(score / cap); 0: they stay */
} tfm_attention_weights;

/* Turns the heads of x as rotary positions do: row l of [B, L, n_heads * K] as position first + l.
   out may be x. */
TFM_DEF tfm_status tfm_rotary(tfm_tensor *out, const tfm_tensor *x,
                              const tfm_rotary_positions *rotary, int32_t n_heads, int64_t first,
                              tfm_arena *scratch, tfm_error *err);

/* Splits PyTorch's packed in_proj_weight [3E, E] and in_proj_bias [3E] (or NULL) into
   weights->query, key and value, as views. */
TFM_DEF tfm_status tfm_attention_unpack(tfm_attention_weights *weights,
                                        const tfm_tensor *in_proj_weight,
                                        const tfm_tensor *in_proj_bias, tfm_error *err);

/* Computes head_h = attention(query Wq_h, key Wk_h, value Wv_h) and out = concat(heads) Wo;
   arXiv:1706.03762 section 3.2.2, torch.nn.MultiheadAttention. query [B, T, D], key [B, S, .],
   value [B, S, .], out [B, T, D], attention [B, H, T, S] or NULL. */
TFM_DEF tfm_status tfm_multi_head_attention(tfm_tensor *out, tfm_tensor *attention,
                                            const tfm_attention_weights *weights,
                                            const tfm_attention_inputs *inputs, tfm_arena *scratch,
                                            tfm_error *err);

/* ---- layers and stacks ---- */

/* Where the norm of a sublayer stands. */
typedef enum tfm_norm_order {
    TFM_NORM_ORDER_POST, /* x = norm(x + sublayer(x)): arXiv:1706.03762 */
    TFM_NORM_ORDER_PRE,  /* x = x + sublayer(norm(x)): arXiv:2002.04745, PyTorch's norm_first */
    TFM_NORM_ORDER_COUNT
} tfm_norm_order;

typedef struct tfm_encoder_layer_weights {
    tfm_attention_weights self_attn;
    tfm_ffn_weights ffn;
    tfm_norm_weights norm1, norm2;
    tfm_norm_order order;
    tfm_norm_weights norm1_out, norm2_out; /* of what a sub-layer gives, before it is added; or
                                              absent, as without weight and bias */
} tfm_encoder_layer_weights;

typedef struct tfm_decoder_layer_weights {
    tfm_attention_weights self_attn, cross_attn;
    tfm_ffn_weights ffn;
    tfm_norm_weights norm1, norm2, norm3;
    tfm_norm_order order;
    tfm_ssru_weights ssru; /* [D, D] each; replaces self_attn, which must then be absent */
    tfm_norm_weights norm1_out, norm2_out, norm3_out; /* as in an encoder layer */
} tfm_decoder_layer_weights;

typedef struct tfm_encoder_weights {
    const tfm_encoder_layer_weights *layers;
    int32_t n_layers;
    const tfm_norm_weights *norm; /* final norm, NULL: none */
} tfm_encoder_weights;

typedef struct tfm_decoder_weights {
    const tfm_decoder_layer_weights *layers;
    int32_t n_layers;
    const tfm_norm_weights *norm;
} tfm_decoder_weights;

/* What a decoder reads. Each of the masks may be NULL. */
typedef struct tfm_decoder_inputs {
    const tfm_tensor *x, *memory; /* [B, T, D], [B, S, D] */
    const tfm_masks *self_masks, *cross_masks;
} tfm_decoder_inputs;

/* Computes torch.nn.TransformerEncoderLayer. out, x: [B, S, D]; attention: [B, H, S, S] or NULL. */
TFM_DEF tfm_status tfm_encoder_layer(tfm_tensor *out, tfm_tensor *attention,
                                     const tfm_encoder_layer_weights *weights, const tfm_tensor *x,
                                     const tfm_masks *masks, tfm_arena *scratch, tfm_error *err);

/* Computes torch.nn.TransformerEncoder. attention: [N, B, H, S, S] or NULL. */
TFM_DEF tfm_status tfm_encoder(tfm_tensor *out, tfm_tensor *attention,
                               const tfm_encoder_weights *weights, const tfm_tensor *x,
                               const tfm_masks *masks, tfm_arena *scratch, tfm_error *err);

/* Computes torch.nn.TransformerDecoderLayer. out, x: [B, T, D]; memory: [B, S, D]; self_attention:
   [B, H, T, T] or NULL; cross_attention: [B, H, T, S] or NULL. Self-attention is causal only if
   self_masks says so. An SSRU takes no masks: it always reads all earlier positions, pads too. It
   has no self-attention weights: asking for them is TFM_E_ARGUMENT. */
TFM_DEF tfm_status tfm_decoder_layer(tfm_tensor *out, tfm_tensor *self_attention,
                                     tfm_tensor *cross_attention,
                                     const tfm_decoder_layer_weights *weights,
                                     const tfm_decoder_inputs *inputs, tfm_arena *scratch,
                                     tfm_error *err);

/* Computes torch.nn.TransformerDecoder. self_attention: [N, B, H, T, T] or NULL; cross_attention:
   [N, B, H, T, S] or NULL. */
TFM_DEF tfm_status tfm_decoder(tfm_tensor *out, tfm_tensor *self_attention,
                               tfm_tensor *cross_attention, const tfm_decoder_weights *weights,
                               const tfm_decoder_inputs *inputs, tfm_arena *scratch,
                               tfm_error *err);

#ifdef TFM__NO_MODULES
#pragma pop_macro("TFM_DEF")
#endif

/* >>api-files =====================================================================================
   5. SAFETENSORS FILES
   A strict reader: if a file breaks a rule of the format, it is refused, and the message names the
   rule.
   ============================================================================================== */

typedef struct tfm_safetensors tfm_safetensors;

/* Reads the directory of a file in memory. You keep data, and it must outlive *file. allocator may
   be NULL. Errors: TFM_E_FORMAT, TFM_E_MEMORY. */
TFM_DEF tfm_status tfm_safetensors_open(tfm_safetensors **file, const void *data, size_t size,
                                        const tfm_allocator *allocator, tfm_error *err);
#ifndef TRANSFORMER_NO_STDIO
/* Does the same with the file at path, which is UTF-8 on Windows. *file owns the bytes. Errors:
   also TFM_E_IO. */
TFM_DEF tfm_status tfm_safetensors_open_file(tfm_safetensors **file, const char *path,
                                             const tfm_allocator *allocator, tfm_error *err);
#endif
/* Frees a file, and the bytes if it owns them. file may be NULL. */
TFM_DEF void tfm_safetensors_free(tfm_safetensors *file);

/* Return the number of tensors, and the name and the tensor of entry i, in the order of their data.
   The tensor's data are the bytes of the file: little-endian and perhaps not aligned. Read them
   with tfm_safetensors_read. Without such an entry the name and the data are NULL. For file NULL,
   these functions and the next three return what they return for a file without entries and keys:
   0, NULL or -1. */
TFM_DEF int64_t tfm_safetensors_count(const tfm_safetensors *file);
TFM_DEF const char *tfm_safetensors_name(const tfm_safetensors *file, int64_t i);
TFM_DEF tfm_tensor tfm_safetensors_tensor(const tfm_safetensors *file, int64_t i);

/* Returns the entry with this name, or -1. */
TFM_DEF int64_t tfm_safetensors_find(const tfm_safetensors *file, const char *name);

/* Returns the value of a metadata key, or NULL if the file has no such key. */
TFM_DEF const char *tfm_safetensors_metadata(const tfm_safetensors *file, const char *key);
/* Returns metadata key number i, in the order of the file, or NULL after the last. */
TFM_DEF const char *tfm_safetensors_metadata_key(const tfm_safetensors *file, int64_t i);

/* Copies entry i into out, an array of as many elements of type want. F32, F16 and BF16 can be read
   as TFM_DTYPE_F32, BOOL and integers as TFM_DTYPE_I32 or TFM_DTYPE_I64 if each value fits, and any
   type as itself. Numbers have the host's byte order. Errors: TFM_E_DTYPE, TFM_E_OVERFLOW. */
TFM_DEF tfm_status tfm_safetensors_read(const tfm_safetensors *file, int64_t i, tfm_dtype want,
                                        void *out, tfm_error *err);

/* >>api-model =====================================================================================
   6. MODELS
   A model never changes after loading. Any number of threads and sessions may use it at once.
   ============================================================================================== */

typedef struct tfm_model tfm_model;

/* How a text becomes tokens. */
typedef enum tfm_text_kind {
    TFM_TEXT_KIND_WORDS,         /* whitespace separates tokens */
    TFM_TEXT_KIND_CHARACTERS,    /* each Unicode character is a token; whitespace is U+2581 */
    TFM_TEXT_KIND_PIECES,        /* targets only: tokens are joined; U+2581 becomes a space */
    TFM_TEXT_KIND_SENTENCEPIECE, /* the SentencePiece model in the file decides */
    TFM_TEXT_KIND_BYTES,         /* each byte of UTF-8 is a token: ByT5 */
    TFM_TEXT_KIND_BYTE_BPE,      /* GPT-2's byte-level BPE with the merges in the file */
    TFM_TEXT_KIND_COUNT
} tfm_text_kind;

/* A language of the model: its code in the file and the id of its token. */
typedef struct tfm_language {
    const char *code;
    int32_t id;
} tfm_language;

/* Which language token begins the source. */
typedef enum tfm_language_use {
    TFM_LANGUAGE_USE_NONE,
    TFM_LANGUAGE_USE_SOURCE, /* that of the source's language */
    TFM_LANGUAGE_USE_TARGET, /* that of the language to translate into */
    TFM_LANGUAGE_USE_COUNT
} tfm_language_use;

/* What the model reads at a time. */
typedef enum tfm_sentences {
    TFM_SENTENCES_UNKNOWN, /* the file does not say it: whole texts, as versions 0.4.0 to 0.6.0 read
                              them, so that each file keeps its bits. In the session's options: as
                              the file says */
    TFM_SENTENCES_SPLIT,   /* a sentence: tfm_translate splits texts into sentences */
    TFM_SENTENCES_WHOLE,   /* a whole text: summaries, T5 with the name of a task, speech */
    TFM_SENTENCES_COUNT
} tfm_sentences;

/* Return the word that a model file has for a value: "post", "rms_norm", "relu" ... They return "?"
   if the enum has no such value. */
TFM_DEF const char *tfm_norm_order_name(tfm_norm_order order);
TFM_DEF const char *tfm_norm_kind_name(tfm_norm_kind kind);
TFM_DEF const char *tfm_activation_name(tfm_activation activation);
TFM_DEF const char *tfm_position_kind_name(tfm_position_kind kind);
TFM_DEF const char *tfm_text_kind_name(tfm_text_kind kind);
TFM_DEF const char *tfm_language_use_name(tfm_language_use use);
TFM_DEF const char *tfm_sentences_name(tfm_sentences sentences);

/* A model's config, with defaults filled in. tools/convert/README.md explains the fields. An id of
   -1 means none. embedding_scale is the factor itself, also if the file has "sqrt_d".
   attention_scale 0 means 1/sqrt(d_key). d_key and d_value are widths of one head. */
typedef struct tfm_config {
    int32_t n_heads, n_encoder_layers, n_decoder_layers;
    int32_t d_model, d_ff, d_ff_decoder, d_key, d_value;
    int32_t src_vocab_size, tgt_vocab_size;
    tfm_norm_order norm_order; /* of the file: norm */
    tfm_norm_kind norm_kind;   /* of the file: layer_norm */
    double layer_norm_eps;
    tfm_activation activation, decoder_activation; /* of the encoder's layers, of the decoder's */
    tfm_position_kind positions;
    int32_t position_offset;
    double position_base;
    int32_t position_divisor_half, position_double, pad_position_zero;
    double embedding_scale, attention_scale;
    int32_t src_pad, tgt_pad, src_unk, tgt_unk, src_start, src_end, start, end, forced;
    int32_t start_embedding_zero;
    tfm_text_kind src_text, tgt_text;
    int32_t has_text;      /* 1: the file has vocabularies for both sides */
    int32_t max_positions; /* learned positions: the longest sequence of either side; else 0 */
    int32_t n_suppressed;
    const int32_t *suppressed; /* [n_suppressed]; the model owns it */
    int32_t n_languages;
    const tfm_language *languages; /* [n_languages]; the model owns it */
    tfm_language_use src_language;
    int32_t tgt_language_forced; /* 1: the target begins with its language's token */
    int32_t n_ssru_layers;       /* decoder layers that have an SSRU instead of self-attention */
    int32_t has_shortlist;       /* 1: the file has a lexicon (lexical_shortlist) */
    int32_t shortlist_first;     /* ids below this belong to each sentence's shortlist */
    int32_t n_alignment_heads;
    const int32_t *alignment_heads; /* [n, 2]: layer and head, from 0; the model owns it */
    int32_t relative_buckets;       /* of relative positions; 0: none */
    int32_t relative_max_distance;
    int32_t has_gate;     /* 1: feed-forwards are gated */
    int32_t byte_offset;  /* TFM_TEXT_KIND_BYTES: the id of byte 0 */
    int32_t prefix_space; /* byte_bpe: 1: a text that begins without a space gets one;
                             sentencepiece: 2: what follows an added token gets none */
    int32_t d_input;      /* columns of a source's embeddings; 0: there is no encoder */
    int32_t d_memory;     /* columns of a source's memory; d_model if there is an encoder */
    int32_t max_source_positions, max_target_positions; /* as max_positions, for one side */
    int32_t clean_up;       /* 1: the target's text has no space before punctuation */
    int32_t trailing_space; /* sentencepiece: whitespace at the end of a text is 1: kept; 2: left
                               out, but kept beside added tokens */
    tfm_sentences sentences;
    int32_t n_kv_heads, n_kv_heads_decoder; /* heads of keys and values */
    int32_t d_rotary;        /* columns of a head that turn (tfm_rotary_positions); 0: none */
    int32_t rotary_layout;   /* 1: pairs are interleaved */
    int32_t cross_attention; /* 1: merged: self-attention reads target and source in one softmax */
    double attention_cap, logit_cap; /* c * tanh(x / c) of scores and logits; 0: none */
    int32_t n_encoder_windows, n_decoder_windows;
    const int32_t *encoder_windows, *decoder_windows; /* [n, 3]: layer, left, right, as in
                                                         tfm_attention_weights; the model owns
                                                         them */
    const char *source_language, *target_language;    /* codes such as de and zh, of a model for one
                                                      pair; the model owns them; NULL: unknown */
} tfm_config;

/* The type in which a loaded model keeps its matrices. */
typedef enum tfm_weight_type {
    TFM_WEIGHT_TYPE_AS_STORED, /* the type that the file has */
    TFM_WEIGHT_TYPE_F32,
    TFM_WEIGHT_TYPE_F16,
    TFM_WEIGHT_TYPE_BF16,
    TFM_WEIGHT_TYPE_I8 /* bytes with one scale per output, max|w| / 127. Inputs are quantized too,
                          with one scale per token or the file's factor, and the sums
                          of the products are exact */
} tfm_weight_type;

/* All zero: defaults. */
typedef struct tfm_model_options {
    const tfm_allocator *allocator; /* NULL: malloc and free */
    tfm_weight_type weights;
    int32_t in_place;  /* 1: F32 matrices stay where they are and are not rearranged for speed. That
                     takes less memory and makes batches slower */
    int32_t map;       /* 1: tfm_model_load_file maps the file instead of reading it. It needs
                     TRANSFORMER_MMAP, and nobody may change or truncate the file meanwhile */
    int32_t exact;     /* 1: computes with the arithmetic "fused", whose bits are the same on every
                     machine (chapter 10) */
    int32_t overwrite; /* 1: tfm_model_load may write to data, whatever its type says: it rearranges
                     the matrices within it, as tfm_model_load_file does, and copies fewer */
} tfm_model_options;

/* Loads a model from size bytes at data, which must outlive the model. data may have any address;
   at a multiple of 4, F32 vectors need no copy. options may be NULL. Errors: TFM_E_FORMAT,
   TFM_E_CONFIG, TFM_E_TENSOR, TFM_E_UTF8, TFM_E_MEMORY. */
TFM_DEF tfm_status tfm_model_load(tfm_model **model, const void *data, size_t size,
                                  const tfm_model_options *options, tfm_error *err);
#ifndef TRANSFORMER_NO_STDIO
/* Loads a model from the file at path, which is read as a whole, or mapped if options.map is set.
   On Windows path is UTF-8. A message begins with path. Errors: also TFM_E_IO. */
TFM_DEF tfm_status tfm_model_load_file(tfm_model **model, const char *path,
                                       const tfm_model_options *options, tfm_error *err);
#endif
/* Frees a model. Free its sessions first. model may be NULL. */
TFM_DEF void tfm_model_free(tfm_model *model);
/* Returns the model's config, which the model owns; NULL for NULL. */
TFM_DEF const tfm_config *tfm_model_config(const tfm_model *model);

/* Returns the arithmetic that a model is computed with: "fused", "separate", "fused, pairs of
   bf16", "BLAS" or "excess precision"; NULL for NULL. Two machines where it is "fused" compute the
   same bits, if their versions of the library are the same (chapter 10). */
TFM_DEF const char *tfm_arithmetic_string(const tfm_model *model);

/* >>api-translator ================================================================================
   7. TRANSLATORS
   A translator takes any number of texts of any length, and gives their translations in the order
   of the texts. It makes and enlarges the sessions that it needs (chapter 1).
   ============================================================================================== */

typedef struct tfm_translator tfm_translator;

/* A text: UTF-8 of size bytes, which need not be terminated. */
typedef struct tfm_text {
    const char *data;
    size_t size;
} tfm_text;

/* All zero: defaults. */
typedef struct tfm_translator_options {
    const struct tfm_decode_options *decoding; /* copied; its arrays must outlive the translator.
                                                  NULL: tfm_model_decoding. skip_errors is not read:
                                                  a text that fails never stops the others */
    tfm_sentences sentences;                   /* how a text is read; 0: as the model file says */
    const char *source_language, *target_language; /* as in tfm_languages_set; NULL: none */
    int32_t threads;    /* 0 means 1, at most 64. Each translates batches with its own session; if
                           there is only one batch, all of them share its work */
    int32_t max_batch;  /* sentences that a thread translates together at most; 0 means 64. Of long
                           sentences it takes fewer, because they take more memory */
    int32_t max_source; /* a sentence with more tokens is TFM_E_TOO_LONG; 0: 4096, or as many as
                           the model has positions for, if these are fewer */
    size_t memory;      /* bytes of all sessions together; texts on their way are not counted. A
                           sentence that does not fit its thread's share is TFM_E_MEMORY. 0: batches
                           take memory in proportion to the model, and one sentence what it needs */
    const tfm_allocator *allocator; /* NULL: the model's. Never called by two threads at a time */
    tfm_dtype cache;                /* as in tfm_session_options */
} tfm_translator_options;

/* What became of a text. It is valid during the call that gets it. */
typedef struct tfm_translated {
    int64_t number;                    /* of the request in this run, counted from 0 */
    const struct tfm_request *request; /* as it was given, for instance to free its text */
    tfm_text text;                     /* the translation, terminated; empty if there is none */
    tfm_status status;                 /* TFM_OK, or why the text was not translated */
    const char *message;               /* "", or why the text was not translated, in words, and the
                                          sentence at which it failed */
    int64_t sentences;                 /* sentences of the text */
    int64_t blank;                     /* sentences without tokens, which have no translation */
    int64_t cut;    /* sentences of which only the first tokens were translated (options.truncate),
                       or whose translation ended at max_length */
    int64_t tokens; /* tokens of the translations of all sentences */
} tfm_translated;

/* Gets a result, in the order of the requests. Returns 0, or anything else to end the run. One
   thread at a time calls these functions, but `done` not always the thread that called
   tfm_translator_run. */
typedef int (*tfm_translator_done)(void *user, const tfm_translated *result);

/* Fills in the next request, which is all zero, and returns 1; at the end returns 0. What the
   request points to must stay valid until its result. May return -1 if it would have to wait for
   input: the results of all requests so far then come before the next call, which may wait. */
typedef int (*tfm_translator_next)(void *user, struct tfm_request *request);

#ifndef TRANSFORMER_NO_TEXT
/* Creates a translator. options may be NULL. The model must outlive it. Errors: as
   tfm_session_create and tfm_languages_set; TFM_E_ARGUMENT with the name of an option. */
TFM_DEF tfm_status tfm_translator_create(tfm_translator **translator, const tfm_model *model,
                                         const tfm_translator_options *options, tfm_error *err);
/* Frees a translator, which may be NULL. */
TFM_DEF void tfm_translator_free(tfm_translator *translator);

/* Translates n requests of any kind of source, and calls done for each, in their order. A text with
   a prefix or a draft is one sentence. A request that fails has an error in its result. Results are
   the same bits for any max_batch, threads and order. One thread may call this at a time. Errors:
   TFM_E_ARGUMENT; TFM_E_MEMORY if requests cannot be stored: done was called for those before. */
TFM_DEF tfm_status tfm_translator_run(tfm_translator *translator,
                                      const struct tfm_request *requests, int64_t n,
                                      tfm_translator_done done, void *user, tfm_error *err);
/* Does the same with requests that next gives. It reads ahead only some batches, so a pipe without
   an end needs bounded memory. */
TFM_DEF tfm_status tfm_translator_pull(tfm_translator *translator, tfm_translator_next next,
                                       tfm_translator_done done, void *user, tfm_error *err);

/* Returns the most bytes that the translator has held so far, its texts on their way included. */
TFM_DEF size_t tfm_translator_bytes(const tfm_translator *translator);
#endif

/* >>api-session ===================================================================================
   8. SESSIONS
   A session is one decode with its memory. You choose its limits when you create it. Only one
   thread may use it at a time.
   ============================================================================================== */

typedef struct tfm_session tfm_session;

/* The bytes of a text that a token comes from: begin to end - 1. */
typedef struct tfm_span {
    size_t begin, end;
} tfm_span;

/* Where tokenizing writes. All zero but ids and capacity: defaults. */
typedef struct tfm_tokens {
    int32_t *ids;    /* [capacity] */
    tfm_span *spans; /* [capacity]: where each id comes from; NULL: not wanted */
    int32_t capacity;
    int32_t truncate; /* 1: of too many tokens the first and the end token are written, capacity in
                         all; 0: they are TFM_E_TOO_LONG. (options.truncate is the number itself) */
    int32_t n;        /* set: the number of ids; 0 for a blank text */
    int32_t left_out; /* set: tokens that were not written (truncate) */
} tfm_tokens;

/* Your program's own parallel-for. run must call task(context, part) for each part from 0 to
   parts - 1, in any order and in any threads, and return when all calls are done. */
typedef void (*tfm_task)(void *context, int32_t part);
typedef struct tfm_parallel {
    void (*run)(void *user, tfm_task task, void *context, int32_t parts);
    void *user;
} tfm_parallel;

/* All zero: defaults. */
typedef struct tfm_session_options {
    /* ---- limits of a call ---- */
    int32_t max_batch;     /* sentences at a time; 0 means 1 */
    int32_t max_source;    /* source tokens per sentence; 0 means 512 */
    int32_t max_target;    /* target tokens per sentence; 0 means 2 * max_source + 16 */
    int32_t max_beam;      /* hypotheses per sentence (beam, samples or alternatives); 0 means 1 */
    int32_t max_shortlist; /* ids of a shortlist, at most tgt_vocab_size; 0: none. If the lexical
                              shortlists of a batch have more ids together, the session computes the
                              full projection */
    int32_t max_draft; /* tokens of a draft that a step verifies at most, for each sentence; each
                              takes 4 * (V + max_target) bytes and more; 8 is a good choice. 0: the
                              session takes no drafts */

    /* ---- what it does ---- */
    const struct tfm_decode_options *decoding; /* of calls without options, for instance
                                tfm_model_decoding(model). The session copies it, but not the
                                arrays that it points to. max_beam, max_target, max_shortlist
                                and attention of 0 become large enough for it. NULL: greedy */
    tfm_sentences sentences; /* how tfm_translate and tfm_translate_batch read a text; 0: as the
                                model file says */
    int32_t attention; /* 1: keeps attention, in 4 * max_target * max_source bytes per hypothesis */

    /* ---- memory and precision ---- */
    const tfm_allocator *allocator; /* NULL: the model's */
    tfm_dtype cache;             /* of the KV cache: TFM_DTYPE_F32 or TFM_DTYPE_F16 (chapter 10) */
    tfm_dtype encoder_attention; /* what the encoder's attention multiplies: TFM_DTYPE_F32, or
                                    TFM_DTYPE_BF16, which needs AMX or BF16 to have an effect
                                    (chapter 10) */

    /* ---- threads ---- */
    int32_t threads; /* that share the work, with the calling one; 0 means 1, at most 64. With
                        parallel this must be the number of its threads */
    const tfm_parallel *parallel; /* your own parallel-for, which the session copies; NULL: none */
} tfm_session_options;

/* Computes the exact number of bytes that tfm_session_create will request, in one call. The system
   may never have to supply all of it, because caches fill as sentences grow. Errors:
   TFM_E_OVERFLOW, TFM_E_TOO_LONG (limits beyond the model's learned positions). */
TFM_DEF tfm_status tfm_session_bytes(const tfm_model *model, const tfm_session_options *options,
                                     size_t *bytes, tfm_error *err);
/* Creates a session. options may be NULL. The model must outlive it. */
TFM_DEF tfm_status tfm_session_create(tfm_session **session, const tfm_model *model,
                                      const tfm_session_options *options, tfm_error *err);
/* Frees a session. session may be NULL. */
TFM_DEF void tfm_session_free(tfm_session *session);

/* n ids at data. All zero: none. */
typedef struct tfm_ids {
    const int32_t *data;
    int32_t n;
} tfm_ids;

/* What to decode: a source, and the settings of this source alone. Members that are zero have their
   defaults. The session copies the struct. What it points to must stay valid during the call, and
   the prompt, the prefix and the draft until the last step. */
typedef struct tfm_request {
    /* ---- the source: exactly one of the four ---- */
    tfm_text text; /* data NULL: no text. A blank text has an empty result */
    tfm_ids ids;   /* data NULL: no ids. Without ids the result is empty, too. Pads are masked */
    const tfm_tensor *embeddings; /* F32 [S, d_input of tfm_config] (chapter 4) */
    const tfm_tensor *memory;     /* F32 [S, d_memory]: the encoder does not run */

    /* ---- languages, by code; NULL: those of tfm_languages_set ---- */
    const char *source_language; /* of a text; the other kinds of source are not changed */
    const char *target_language;

    /* ---- how the target begins ---- */
    /* What the decoder reads before the target, instead of the model's start token. It is not part
       of the result, its scores, lengths and n-grams. The target has at most max_target - (length
       of the prompt) + 1 tokens. A decoder whose position 0 has no embedding (start_embedding
       "zero") does not read the first id. */
    tfm_ids prompt;
    const int32_t *first_token; /* one id that begins the target, such as a language, and scores 0.
                                   NULL: the one that the model forces, if it has one */
    tfm_ids prefix; /* tokens after the first one, forced or, with prefix_bias, favoured.
                                   A forced token scores 0 */
    /* A guess of the target, for greedy decoding in a session with max_draft (chapter 3): with or
       without the first token, with the prefix, without the prompt. A step may then give several
       tokens. The results are the same bits. */
    tfm_ids draft;

    uint64_t seed; /* of its samples */
} tfm_request;

/* Return a request with this source and zeros, and a list of ids. */
TFM_DEF tfm_request tfm_request_text(const char *data, size_t size);
TFM_DEF tfm_request tfm_request_ids(const int32_t *data, int32_t n);
TFM_DEF tfm_ids tfm_ids_make(const int32_t *data, int32_t n);

/* Runs the encoder alone on the sources of n requests, none of them blank; nothing else of the
   requests counts, except languages. tfm_session_encoder_output then returns its output
   [n, S, d_memory], or the memory that was given; S is the longest source. The session owns it
   until its next call. Positions after a sentence's length are undefined. The tensor's data is NULL
   for session NULL, and if nothing was encoded. Errors: as tfm_session_start. */
TFM_DEF tfm_status tfm_session_encode(tfm_session *session, const tfm_request *requests, int32_t n,
                                      tfm_error *err);
TFM_DEF tfm_tensor tfm_session_encoder_output(const tfm_session *session);

/* All zero: defaults. You own the attention tensors. data NULL: none. */
typedef struct tfm_forward_options {
    int32_t not_causal;           /* 1: target positions attend to later positions too */
    tfm_tensor encoder_attention; /* [N, B, H, S, S] */
    tfm_tensor decoder_attention; /* [N, B, H, T, T] */
    tfm_tensor cross_attention;   /* [N, B, H, T, S] */
    int32_t alignment_heads;      /* 1: cross_attention is [n, B, T, S], of the config's heads */
    int32_t keep_pads; /* 1: pad ids in a target are tokens like others, as in tfm_session_score.
                          Set it if targets begin with a start token that is the pad id, as those
                          of Marian and T5 do */
} tfm_forward_options;

/* Computes the teacher-forced pass: the encoder on the sources of n requests, the decoder on their
   targets [n], and logits [n, T, V] into your tensor, which may have row strides; T is the longest
   target, and shorter ones are filled up with pads. This is torch.nn.Transformer.forward with
   embeddings and generator. Every position is computed, pads too, as in PyTorch. requests NULL: the
   n sources of the session's last call, which are not encoded again (not with encoder_attention).
   Errors: as tfm_session_encode; TFM_E_SHAPE for logits and attention tensors that do not fit;
   TFM_E_ARGUMENT for decoder_attention and not_causal if a layer is an SSRU, and for
   alignment_heads if the model has none. */
TFM_DEF tfm_status tfm_session_forward(tfm_session *session, const tfm_request *requests, int32_t n,
                                       const tfm_ids *targets, const tfm_forward_options *options,
                                       tfm_tensor *logits, tfm_error *err);

/* ---- decoding: beam search, sampling, alternatives ---- */

/* When the beam search of a sentence ends, if it does not reach max_length. */
typedef enum tfm_stop {
    TFM_STOP_CTRANSLATE2, /* CTranslate2's rule: round(beam * patience) hypotheses have ended
                             (arXiv:2204.05424). Without length and coverage penalty: n_best have
                             ended, and one was the best of its step */
    TFM_STOP_EARLY_NEVER, /* Hugging Face's early_stopping="never": no running hypothesis can still
                             get among the n best */
    TFM_STOP_EARLY_TRUE,  /* early_stopping=True: round(beam * patience) hypotheses have ended, with
                             any penalties */
    TFM_STOP_EARLY_FALSE, /* early_stopping=False, Hugging Face's default: `beam` finished
                             hypotheses score at least as high as the best running one would if it
                             ended at its present length */
    TFM_STOP_COUNT
} tfm_stop;

/* Which earlier tokens the rules against repetition look at. */
typedef enum tfm_repetition {
    TFM_REPETITION_TARGET,       /* those of the target; the penalty changes logits */
    TFM_REPETITION_HUGGING_FACE, /* those of the target and the start token. With a beam, the
                                    penalty multiplies log-probabilities, which are not normalized
                                    again */
    TFM_REPETITION_COUNT
} tfm_repetition;

/* Return the word that a model file has for a value, or "?" if the enum has no such value. */
TFM_DEF const char *tfm_stop_name(tfm_stop stop);
TFM_DEF const char *tfm_repetition_name(tfm_repetition repetition);

/* All zero: greedy decoding with the model's own end token; only the ids that its config names are
   suppressed. You own the arrays and keep them until the last step. Probabilities are the model's
   softmax over all V logits. Only repetition penalty, prefix bias, shortlist and edit_logits change
   them. */
typedef struct tfm_decode_options {
    /* ---- lengths, in target tokens ---- */
    int32_t max_length; /* with the end token and forced tokens; a longer prefix is cut. 0 means
                           2 * source length + prefix length + 16, but at least min_length + 1 and
                           at most the session's max_target, and a prefix without room there is
                           TFM_E_TOO_LONG */
    int32_t min_length; /* no end token before this many others; at most max_length */
    /* n: of a longer source (with start, end and language token) only the first n tokens are read,
       at most max_source; the last of them is the model's src_end if the source ended with it.
       result.left_out counts the others. 0: a longer source is TFM_E_TOO_LONG. */
    int32_t truncate;

    /* ---- beam search ---- */
    int32_t beam;            /* hypotheses that go on at each step; 0 means 1: greedy */
    int32_t n_best;          /* hypotheses to return: at most beam, or round(beam * patience) if
                                that is more and max_beam allows it; 0 means 1 */
    double length_penalty;   /* score = sum / length^length_penalty; length counts the end token */
    double coverage_penalty; /* c: adds c * sum_s log(min(sum_t attention[t, s], 1));
                                arXiv:1609.08144 equation 14; needs a session with attention */
    double patience;         /* 0 means 1 */
    tfm_stop stop;

    /* ---- sampling instead of search ----
       The score of a sample is the sum of the model's log-probabilities at temperature 1. */
    int32_t samples;    /* independent samples of each source; 0: search */
    double temperature; /* 0 means 1 */
    int32_t top_k;      /* sample from the k most probable tokens only; 0: from all */
    double top_p;       /* then from the smallest set of these whose total probability is at
                              least p (nucleus sampling); 0 means 1: from all */

    /* ---- alternatives ----
       At the first position that is not forced, the search takes the n most probable tokens
       (without the end token) and continues each in a search of its own. max_beam must be at least
       n * beam. Results are in the order of that token's probability. Its log-probability counts in
       full, and the length penalty applies to the tokens after it. */
    int32_t alternatives;
    double min_alternative_prob; /* drops alternatives that are less probable, but never all */

    /* ---- how the target begins (tfm_request has more) ---- */
    double prefix_bias; /* b in (0, 1]: a prefix is favoured, not forced, as long as the hypothesis
                           follows it: p' = (1 - b) p + b [token = prefix]; arXiv:1912.03393 section
                           4.2. 0: a prefix is forced */

    /* ---- how the target ends ---- */
    const int32_t *end_ids; /* tokens that end the target, instead of the model's end token */
    int32_t n_end_ids;
    int32_t force_end; /* 1: a target that reaches max_length gets the end token as its last token,
                          which then scores 0 (Hugging Face's forced_eos_token_id) */
    int32_t keep_end;  /* 1: a result, and its text in tokens, includes its end token */

    /* ---- suppressed tokens: what the target may not contain ----
       Forced tokens are allowed. */
    const int32_t *suppressed; /* single ids */
    int32_t n_suppressed;
    const tfm_ids *suppressed_sequences; /* of several ids each */
    int32_t n_suppressed_sequences;
    int32_t no_unknown; /* 1: suppresses the model's tgt_unk */

    /* ---- repetition ---- */
    int32_t no_repeat_ngram;   /* n: no sequence of n tokens occurs twice; 0: off */
    int32_t no_source_ngram;   /* n: no sequence of n tokens of the source occurs in the target, for
                                  models that share ids (encoder_no_repeat_ngram_size); 0: off */
    double repetition_penalty; /* r: the logit of an earlier token is divided by r if it is positive
                                  and multiplied by r if negative; arXiv:1909.05858. 0 means 1 */
    tfm_repetition repetition; /* which tokens no_repeat_ngram and repetition_penalty look at */

    /* ---- shortlists: the only ids that can be emitted ----
       Probabilities are relative to them. Give one of the two, in a session with max_shortlist. */
    const int32_t *shortlist;  /* each id once, with the end token (otherwise only the lengths end a
                                 sentence) and all forced tokens. All rows share the list, which
                                 tfm_session_start reads. NULL and 0: the whole vocabulary */
    int32_t n_shortlist;       /* at most the session's max_shortlist */
    int32_t lexical_shortlist; /* 1: the model's lexicon gives each sentence its own shortlist
                                  (tfm_config.has_shortlist): ids below shortlist_first, the
                                  candidates of each source token, that token itself if both sides
                                  share one embedding, the end ids, the first token and the prefix.
                                  A sentence with more ids than max_shortlist is TFM_E_TOO_LONG */

    /* ---- attention that a session with attention keeps ----
       Layers and heads count from 1. Both 0: the mean over the model's alignment_heads, if its
       config has some. */
    int32_t attention_layer; /* 0: the last */
    int32_t attention_head;  /* 0: the mean over heads */

    /* ---- rules of your own ---- */
    /* Called for each hypothesis before its next token is chosen, unless that is forced. ids [n]
       are its tokens so far; request is its number. The function may edit logits [V]: -INFINITY
       suppresses a token, and the others share its probability. It sees the model's logits before
       all other options, with -INFINITY for tokens outside a shortlist, which stay out. Equal
       arguments must give equal logits. It must not call the session. NULL: none. */
    void (*edit_logits)(void *user, int32_t request, const int32_t *ids, int32_t n, float *logits);
    void *edit_user;

    /* ---- errors ---- */
    int32_t skip_errors; /* 1: a request that fails has status and message in its result, and the
                            others are decoded; 0: it fails the call (chapter 2) */
} tfm_decode_options;

/* Returns what the model file says of decoding (its key decoding, which may have every option but
   edit_logits); all other options are zero. Copy it to change it. The model owns it and its arrays.
   The session's limits must allow it. */
TFM_DEF const tfm_decode_options *tfm_model_decoding(const tfm_model *model);

typedef enum tfm_finish {
    TFM_FINISH_RUNNING,    /* it has not ended */
    TFM_FINISH_ENDED,      /* by an end token */
    TFM_FINISH_HIT_LENGTH, /* by max_length */
    TFM_FINISH_STUCK,      /* every token was suppressed, or no logit was a number */
    TFM_FINISH_STOPPED,    /* by tfm_session_stop */
    TFM_FINISH_BLANK       /* nothing was decoded: the source is blank, or has an error */
} tfm_finish;

typedef struct tfm_result {
    const int32_t *ids; /* the target without start and end token (see keep_end). The session owns
                           them until its next step */
    int32_t length;
    double log_probability; /* the sum over the tokens, with the end token */
    double score;           /* orders hypotheses: with length and coverage penalty */
    tfm_finish finish;
    int32_t left_out;    /* source tokens that were not read (truncate) */
    tfm_status status;   /* TFM_OK, or why the request failed (skip_errors), */
    const char *message; /* in words; "" if it did not. Cut to the size of 4 * max_beam * max_target
                            or 256 bytes. The session owns it */
} tfm_result;

/* Start a decode and advance it by one step (chapter 4). tfm_session_start encodes the sources of
   n requests, 1 to max_batch. Each tfm_session_step decodes one position of every running
   hypothesis and sets *running to the number of requests that still run. Results have the number of
   their request, always. options may be NULL. If tfm_session_start fails, a decode in progress is
   unchanged. Errors: TFM_E_ARGUMENT for a request without a source or with two; for a text those of
   tfm_session_tokenize; TFM_E_TOKEN (an id outside the vocabulary), TFM_E_TOO_LONG, TFM_E_ARGUMENT
   (only pads), each with the position; TFM_E_SHAPE and TFM_E_DTYPE for embeddings or memory;
   TFM_E_ARGUMENT if the model takes no such source; TFM_E_CONFIG without start token and prompt;
   TFM_E_ARGUMENT, TFM_E_TOO_LONG or TFM_E_TOKEN with the name of the option; TFM_E_STATE for a step
   or result without a start. */
TFM_DEF tfm_status tfm_session_start(tfm_session *session, const tfm_request *requests, int32_t n,
                                     const tfm_decode_options *options, tfm_error *err);
/* Starts a decode of the sources of the session's last call, which are not encoded again. The n
   requests, as many as there are sources, have none. requests NULL: they have no settings either,
   as in tfm_session_forward and tfm_session_score. A source that was blank or failed stays so. */
TFM_DEF tfm_status tfm_session_restart(tfm_session *session, const tfm_request *requests, int32_t n,
                                       const tfm_decode_options *options, tfm_error *err);
TFM_DEF tfm_status tfm_session_step(tfm_session *session, int32_t *running, tfm_error *err);
/* Starts a decode and steps until no request runs. */
TFM_DEF tfm_status tfm_session_decode(tfm_session *session, const tfm_request *requests, int32_t n,
                                      const tfm_decode_options *options, tfm_error *err);

/* Ends one running request with TFM_FINISH_STOPPED, as if it had reached max_length. A
   request that has ended is not changed. Errors: TFM_E_STATE; TFM_E_ARGUMENT for a number that no
   request has. */
TFM_DEF tfm_status tfm_session_stop(tfm_session *session, int32_t request, tfm_error *err);

/* Returns the number of results of a request: at most n_best if it has ended, the running
   hypotheses if it runs, the samples or alternatives in either case, 1 if its source is blank or
   failed, and 0 if there is no such request. */
TFM_DEF int32_t tfm_result_count(const tfm_session *session, int32_t request);

/* Returns result number rank of a request: 0 is the best, or the first sample or alternative. */
TFM_DEF tfm_status tfm_result_get(tfm_session *session, int32_t request, int32_t rank,
                                  tfm_result *result, tfm_error *err);

/* Returns the log-probability of each token of a hypothesis, as the search computed it. out has
   those of its tokens and then that of the end token: result.length + 1 numbers, or result.length
   if the end token is among the tokens (keep_end, and finish is TFM_FINISH_ENDED). A number is 0
   for a forced token, and if there is no end token. Their sum is result.log_probability, up to the
   rounding of doubles. */
TFM_DEF tfm_status tfm_result_log_probabilities(tfm_session *session, int32_t request, int32_t rank,
                                                double *out, tfm_error *err);

/* Returns the attention weights of each target token of a hypothesis over the source tokens: out is
   [length, S], F32, where S is the length of the source with its pads. Errors: TFM_E_STATE if
   the session was created without attention. */
TFM_DEF tfm_status tfm_result_attention(tfm_session *session, int32_t request, int32_t rank,
                                        tfm_tensor *out, tfm_error *err);

/* Returns for each target token the source position that it attends to most, without start token,
   end token and pads: sources [length]. -1 means that there is none. */
TFM_DEF tfm_status tfm_result_alignment(tfm_session *session, int32_t request, int32_t rank,
                                        int32_t *sources, tfm_error *err);

/* Returns the logits [V] that gave a hypothesis its last token or its end in the last step, or NULL
   if it got no token there. They include a repetition penalty and what edit_logits changed. Tokens
   outside the shortlist: -INFINITY. For all tokens of a hypothesis, tfm_session_forward returns the
   logits. */
TFM_DEF const float *tfm_result_logits(tfm_session *session, int32_t request, int32_t rank);

/* Computes the log-probabilities of given targets [n], with the bits of a search: out is row-major,
   [n, T + 1], T is the longest target. Entry l of a row is that of its token l, and the entry after
   its last token is that of the end token. Later entries are 0, and so is a first token that the
   model forces. Targets have neither start nor end token and may be empty. Tokens before offset are
   given and not scored: their entries are 0. requests and errors: as tfm_session_forward;
   TFM_E_CONFIG without an end token. */
TFM_DEF tfm_status tfm_session_score(tfm_session *session, const tfm_request *requests, int32_t n,
                                     const tfm_ids *targets, int32_t offset, double *out,
                                     tfm_error *err);

/* ---- a library compiled elsewhere ---- */

/* Every struct that a program and the library pass to each other. */
/* clang-format off */
#define TFM_STRUCT_TABLE(X)                                                                        \
    X(tfm_error) X(tfm_allocator) X(tfm_arena) X(tfm_tensor) X(tfm_masks) X(tfm_position_options)  \
    X(tfm_norm_weights) X(tfm_linear_weights) X(tfm_ffn_weights) X(tfm_ssru_weights)               \
    X(tfm_attention_inputs) X(tfm_relative_positions) X(tfm_attention_weights)                     \
    X(tfm_encoder_layer_weights) X(tfm_decoder_layer_weights) X(tfm_encoder_weights)               \
    X(tfm_decoder_weights) X(tfm_decoder_inputs) X(tfm_language) X(tfm_config)                     \
    X(tfm_model_options) X(tfm_parallel) X(tfm_session_options) X(tfm_ids) X(tfm_request)          \
    X(tfm_forward_options) X(tfm_decode_options) X(tfm_result) X(tfm_span)                         \
    X(tfm_text) X(tfm_tokens) X(tfm_translator_options) X(tfm_translated)
/* clang-format on */

/* Checks that a library and the header of its caller have the same structs: otherwise the library
   would misread them. sizes [n] are those of TFM_STRUCT_TABLE, in its order. Programs that define
   TRANSFORMER_LIBRARY (transformer.pc and the CMake package define it) check before they load a
   model. A binding with its own declarations should check once. Errors: TFM_E_ARGUMENT with the
   name and both sizes. */
#define tfm_sizes_check tfm_struct_sizes_check /* not the symbol of 0.6.0: it had other arguments */
TFM_DEF tfm_status tfm_sizes_check(const size_t *sizes, size_t n, tfm_error *err);
#ifdef TRANSFORMER_LIBRARY
#if defined(__GNUC__)
#define TFM__CALLER static __attribute__((unused))
#else
#define TFM__CALLER static
#endif
#define TFM_X(type) sizeof(type),
TFM__CALLER tfm_status tfm__caller_check(tfm_error *err) {
    static const size_t sizes[] = {TFM_STRUCT_TABLE(TFM_X)};
    return tfm_sizes_check(sizes, sizeof sizes / sizeof *sizes, err);
}
#undef TFM_X
TFM__CALLER tfm_status tfm__caller_load(tfm_model **model, const void *data, size_t size,
                                        const tfm_model_options *options, tfm_error *err) {
    tfm_status status = tfm__caller_check(err);
    return status == TFM_OK ? tfm_model_load(model, data, size, options, err) : status;
}
#define tfm_model_load tfm__caller_load
#ifndef TRANSFORMER_NO_STDIO
TFM__CALLER tfm_status tfm__caller_load_file(tfm_model **model, const char *path,
                                             const tfm_model_options *options, tfm_error *err) {
    tfm_status status = tfm__caller_check(err);
    return status == TFM_OK ? tfm_model_load_file(model, path, options, err) : status;
}
#define tfm_model_load_file tfm__caller_load_file
#endif
#endif

/* >>api-text ======================================================================================
   9. TEXT
   Texts are UTF-8. The vocabularies of the model file turn them into ids and back.
   ============================================================================================== */
#ifndef TRANSFORMER_NO_TEXT

typedef enum tfm_text_form {
    TFM_TEXT_FORM_TEXT,   /* text as people write it; the config says how it becomes tokens */
    TFM_TEXT_FORM_TOKENS, /* tokens of the vocabulary, with spaces between them */
    TFM_TEXT_FORM_ESCAPED /* tokens on one line, which tokenizing turns back into the same ids.
                        Whitespace in a token is written \s \t \n \v \f \r or, beyond ASCII, \u and
                        four hexadecimal digits, and a backslash is \\. When such text is read,
                        \u0000 to \uFFFF are accepted, and a backslash without an escape means
                        itself. A model of bytes has no spaces between its tokens: this form is
                        then its text, escaped, without bytes that are not valid UTF-8 */
} tfm_text_form;

/* Returns a text: tfm_text_make(text, strlen(text)). */
TFM_DEF tfm_text tfm_text_make(const char *data, size_t size);

/* Finds the sentence of a text at or after byte *at, moves *at behind it, and returns 1; or returns
   0 if there is none. Sentences are slices of the text, in order, without the whitespace between
   them. The rules are for many languages (>>sentences). An invalid byte counts as a letter.

       size_t at = 0;
       while (tfm_sentence_next(text, &at, &sentence)) ... */
TFM_DEF int tfm_sentence_next(tfm_text text, size_t *at, tfm_text *sentence);

/* Returns whether a space belongs between a text and a sentence after it. The last character of the
   text that is a letter decides: whether its script has spaces between words. */
TFM_DEF int tfm_space_after(tfm_text text);

/* Returns what goes between two translated sentences, after a translation of at least one: the
   whitespace that stood between their sources. If none stood there, and the translation's script
   has spaces, it is a space (zh-en). If a single space stood there, and the script has none, it is
   nothing (en-zh). */
TFM_DEF tfm_text tfm_sentence_space(tfm_text translation, tfm_text between);

/* Kinds of characters, as bits. A character may be of several kinds or of none. */
typedef enum tfm_character_kind {
    TFM_CHARACTER_SPACE = 1,    /* Unicode's White_Space */
    TFM_CHARACTER_LOWER = 2,    /* lower case, in Latin, Greek, Cyrillic and Armenian */
    TFM_CHARACTER_UPPER = 4,    /* upper case */
    TFM_CHARACTER_WIDE = 8,     /* of a script without spaces between words, or wide punctuation */
    TFM_CHARACTER_OPENING = 16, /* a bracket or quotation mark that may begin a sentence */
    TFM_CHARACTER_STOP = 32,    /* a stop or an ellipsis, which may end a sentence */
    TFM_CHARACTER_CLOSING = 64, /* a bracket or quotation mark that closes */
    TFM_CHARACTER_COMMA = 128   /* a comma or the like: what follows is no new sentence */
} tfm_character_kind;

/* Returns the bits of tfm_character_kind of a character, which tfm_character_next reads: it returns
   the bytes of the character at text [size], at least 1 if size is. An invalid byte is U+FFFD. */
TFM_DEF int32_t tfm_character_kinds(uint32_t character);
TFM_DEF size_t tfm_character_next(const char *text, size_t size, uint32_t *character);

/* Turns a text into at most capacity source ids, with the config's start and end. *count is 0 for a
   blank text. With ids NULL and capacity 0, the call only sets *count. An unknown token becomes
   src_unk. Tokenizers with pieces need scratch: 17 bytes (unigram) or 49 bytes (BPE) for each byte
   of normalized text. scratch may be NULL: the memory then comes from the model's allocator, and is
   released at the end of the call. A call with a measuring arena tells the exact size, and sets no
   *count. A language token is added only for ">>code<<" before the text (tfm_languages_set). Bytes
   that end with a spelled end token get no second one. Errors: TFM_E_UTF8 (with the byte offset),
   TFM_E_TOO_LONG, TFM_E_TOKEN (unknown, and the model has no src_unk), TFM_E_ARENA, TFM_E_MEMORY,
   TFM_E_NO_TEXT. */
TFM_DEF tfm_status tfm_model_tokenize(const tfm_model *model, tfm_text text, tfm_text_form form,
                                      int32_t *ids, int32_t capacity, int32_t *count,
                                      tfm_arena *scratch, tfm_error *err);

/* Turns a text into source ids as tfm_translate does: with the session's language
   (tfm_languages_set) or the one of ">>code<<" before the text, and with the session's scratch. In
   the forms with tokens, a first token that is a language chooses the language to translate into,
   if src_language is "target". Spans of language, start and end tokens are empty. With
   SentencePiece, a span is the text from which the piece was normalized, as the package reports it;
   if an unknown character becomes several bytes, the last byte has the span. Errors: as
   tfm_model_tokenize; TFM_E_STATE if the language is not known. */
TFM_DEF tfm_status tfm_session_tokenize(tfm_session *session, const tfm_text *source,
                                        tfm_text_form form, tfm_tokens *tokens, tfm_error *err);

/* Turns a target text into target ids without start and end token, for a prefix or for
   tfm_session_score. It works as tfm_model_tokenize, and an unknown token becomes tgt_unk. A
   vocabulary of pieces without SentencePiece has no rules, so at each position the longest piece is
   used; that needs scratch, too. */
TFM_DEF tfm_status tfm_model_tokenize_target(const tfm_model *model, tfm_text text,
                                             tfm_text_form form, int32_t *ids, int32_t capacity,
                                             int32_t *count, tfm_arena *scratch, tfm_error *err);

/* Turns target ids into a terminated text. *size is its length without the terminator. With text
   NULL and capacity 0, the call only sets *size. With SentencePiece, control pieces and the start,
   end, pad and forced id produce no text. Errors: TFM_E_TOO_SMALL (with the number of bytes),
   TFM_E_TOKEN, TFM_E_NO_TEXT. */
TFM_DEF tfm_status tfm_model_detokenize(const tfm_model *model, const int32_t *ids, int32_t count,
                                        tfm_text_form form, char *text, size_t capacity,
                                        size_t *size, tfm_error *err);

/* Translates a terminated text of any number of sentences into out, which is terminated too: the
   same as tfm_translate_batch with one request. */
TFM_DEF tfm_status tfm_translate(tfm_session *session, const char *text, char *out, size_t capacity,
                                 tfm_error *err);

/* Finds the token id of a language, for programs that make ids themselves. Errors: TFM_E_TOKEN if
   there is no such code; the message has up to three similar ones. */
TFM_DEF tfm_status tfm_language_find(const tfm_model *model, const char *code, int32_t *id,
                                     tfm_error *err);

/* Sets the languages of all later texts of the session, for models with several languages (config:
   languages). Codes are those of the model file; give NULL for a side for which the model has no
   language token. If the target's token begins the source, a text can choose for itself with
   ">>code<<" at its beginning. If the model needs languages, tfm_translate returns TFM_E_STATE
   until this call. tfm_session_start forces the target's token and does not change sources. Errors:
   TFM_E_TOKEN if there is no such code (with the nearest); TFM_E_ARGUMENT if a code is missing. */
TFM_DEF tfm_status tfm_languages_set(tfm_session *session, const char *source, const char *target,
                                     tfm_error *err);

/* Translates the sources of up to max_batch requests (chapter 1), and writes the best result of
   each: out[i] points to a terminated text in buffer. A blank text gives an empty one, and so does
   a request that fails under skip_errors. ">>code<<" before a text counts for all its sentences. A
   text with a prefix or a draft is one sentence. If a text has several sentences, the session keeps
   the translations, in 4 * max_batch * max_source * d_memory bytes that it has anyway. It then
   leaves no results; with skip_errors, results have only the status and message of each request.
   options may be NULL. Errors: as tfm_session_start, with the number of the sentence;
   TFM_E_TOO_LONG if the translations exceed these bytes; TFM_E_TOO_SMALL, after which
   tfm_translation_size returns the number of bytes, and tfm_translation_get writes the translations
   without a second decode. */
TFM_DEF tfm_status tfm_translate_batch(tfm_session *session, const tfm_request *requests, int32_t n,
                                       const tfm_decode_options *options, tfm_text *out,
                                       char *buffer, size_t capacity, tfm_error *err);

/* Returns the number of bytes of the last translations, with all terminators: of the best result of
   each request, also if the buffer was too small for them. Returns 0 if there are none. */
TFM_DEF size_t tfm_translation_size(tfm_session *session);

/* Writes the last translations (again): out [n] as in tfm_translate_batch, or NULL. Errors:
   TFM_E_TOO_SMALL, TFM_E_STATE. */
TFM_DEF tfm_status tfm_translation_get(tfm_session *session, tfm_text *out, char *buffer,
                                       size_t capacity, tfm_error *err);

/* Writes result number rank of a request as a terminated text. *size is its length without the
   terminator. With text NULL and capacity 0, the call only sets *size. Errors: as tfm_result_get
   and tfm_model_detokenize. */
TFM_DEF tfm_status tfm_result_text(tfm_session *session, int32_t request, int32_t rank,
                                   tfm_text_form form, char *text, size_t capacity, size_t *size,
                                   tfm_error *err);
#endif /* TRANSFORMER_NO_TEXT */

#ifdef __cplusplus
}
#endif
#endif /* TRANSFORMER_H */

#if defined(TRANSFORMER_IMPLEMENTATION) && !defined(TFM__IMPLEMENTED) &&                           \
    !defined(TRANSFORMER_LIBRARY)
#define TFM__IMPLEMENTED

/* The life of a sentence, from tfm_translate to its translation:

       tfm__session_begin       checks requests and options, encodes and plans  >>search
       tfm__request_tokenize    text to ids                                     >>search
       tfm__encoder_run         the sources, in passes of similar length        >>session
       tfm__stack_run           the layers of encoder or decoder                >>stack
       tfm__product_run         a product: threads share its rows or columns    >>packed
       tfm__kernels             the loops of this CPU, which multiply           >>vectors
       tfm__prompt_run          fills the caches up to the first free token     >>search
       tfm_session_step         one position of each hypothesis, again and again
       tfm__logits_compute      the output projection
       tfm__sentence_step       chooses tokens: candidates, beams, samples
       tfm_result_get           walks back from a hypothesis's last token
       tfm__join                ids to text                                     >>tokens */

/* >>base ==========================================================================================
   10. INCLUDES, CHECKED SIZES, MESSAGES
   Relies on nothing. Every size that comes from a caller or a file is multiplied and added by
   tfm__mul and tfm__add. Every failure is made by tfm__fail, and TFM__TRY hands it on.
   Names: tfm_ public, tfm__ private, TFM_ macros; nothing else leaks.
   ============================================================================================== */

#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#ifndef TRANSFORMER_NO_STDIO
#include <stdio.h>
#endif
#ifdef TRANSFORMER_BLAS
#include <cblas.h>
#endif
#ifdef TRANSFORMER_MMAP
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#endif
/* Threads of POSIX need an atomic exchange of 64 bits, which not every 32-bit CPU has. */
#ifndef TRANSFORMER_NO_THREADS
#if defined(_WIN32)
#define TFM__THREADS
#ifndef WIN32_LEAN_AND_MEAN
#define WIN32_LEAN_AND_MEAN
#endif
#ifndef NOMINMAX
#define NOMINMAX
#endif
#include <windows.h>
#elif defined(__GCC_HAVE_SYNC_COMPARE_AND_SWAP_8) && !defined(__wasm__)
#define TFM__THREADS
#include <pthread.h>
#include <sched.h>
#endif
#endif

#if defined(TFM_MALLOC) != defined(TFM_FREE)
#error "define both TFM_MALLOC and TFM_FREE, or none"
#endif
#ifndef TFM_MALLOC
#define TFM__LIBC_MALLOC
#define TFM_MALLOC(bytes) malloc(bytes)
#define TFM_FREE(pointer) free(pointer)
#endif
#if defined(__linux__) && defined(__LP64__) && defined(__GNUC__) && !defined(__TINYC__) &&         \
    (defined(__x86_64__) || defined(__aarch64__))
#define TFM__SYSTEM_CALLS
#if defined(__USE_GNU) || (defined(_GNU_SOURCE) && !defined(__GLIBC__))
#include <unistd.h>
#else
extern long syscall(long number, ...); /* OpenBLAS defines _GNU_SOURCE too late for unistd.h */
#endif
#endif
/* Hooks of the tests and of tools/bench: multiplications and additions of products, in any thread;
   bytes, comparisons and moves of work on texts; the work that the session's thread begins; the
   nanoseconds from which on a page fault is slow. */
#ifndef TFM__SLOW_PAGE
#define TFM__SLOW_PAGE 2000000
#endif
#ifndef TFM__COUNT
#define TFM__COUNT(operations) ((void)0)
#endif
#ifndef TFM__COUNT_TEXT
#define TFM__COUNT_TEXT(steps) ((void)0)
#endif
enum tfm__part {
    TFM__PART_OTHER,
    TFM__PART_EMBEDDING,
    TFM__PART_PROJECTIONS, /* of attention */
    TFM__PART_ATTENTION,
    TFM__PART_FFN,
    TFM__PART_OUTPUT, /* logits */
    TFM__PART_NORM,   /* and residuals */
    TFM__PART_SEARCH
};
#ifndef TFM__PART
#define TFM__PART(part) ((void)0)
#endif
#ifndef TRANSFORMER_KERNELS
#define TRANSFORMER_KERNELS 6
#endif
#ifndef TRANSFORMER_FILE
#define TRANSFORMER_FILE "transformer.h"
#endif

/* No compiler may make a fused multiply-add of an addition and a multiplication that are written
   apart: results would differ from machine to machine. The implementation's end restores it. */
#if defined(__clang__)
#pragma STDC FP_CONTRACT OFF
#elif defined(__GNUC__) && !defined(__TINYC__)
#pragma GCC push_options
#pragma GCC optimize("fp-contract=off")
#elif defined(_MSC_VER)
#pragma fp_contract(off)
#endif

#if defined(__GNUC__) || defined(_MSC_VER)
#define TFM__RESTRICT __restrict
#else
#define TFM__RESTRICT
#endif

#define TFM__ALIGN 64 /* of every piece of memory: a cache line, and the widest vector */

/* Returns from the calling function when a status is not TFM_OK. */
#define TFM__TRY(call)                                                                             \
    do {                                                                                           \
        tfm_status tfm__s = (call);                                                                \
        if (tfm__s != TFM_OK) return tfm__s;                                                       \
    } while (0)

/* Does not compile if an array has another number of elements than the enum beside it. */
#define TFM__LENGTH_IS(array, n)                                                                   \
    typedef char array##_length[sizeof(array) / sizeof *(array) == (size_t)(n) ? 1 : -1]

/* All sizes are int64_t, so one pair of functions is enough. */
static int64_t tfm__min(int64_t a, int64_t b) { return a < b ? a : b; }
static int64_t tfm__max(int64_t a, int64_t b) { return a > b ? a : b; }

/* Returns how many blocks of some size n things fill; the last may be smaller. */
static int64_t tfm__blocks(int64_t n, int64_t size) { return (n + size - 1) / size; }

/* Both return 0 where the result would not fit; neither takes negative numbers. */
static int tfm__mul(int64_t a, int64_t b, int64_t *product) {
    if (a < 0 || b < 0 || (b != 0 && a > INT64_MAX / b)) return 0;
    *product = a * b;
    return 1;
}
static int tfm__add(int64_t a, int64_t b, int64_t *sum) {
    if (a < 0 || b < 0 || a > INT64_MAX - b) return 0;
    *sum = a + b;
    return 1;
}

/* A message that is being written. Nothing is written past its end. */
typedef struct tfm__writer {
    char *at, *end; /* end: where the terminator goes at the latest */
} tfm__writer;

/* Names come from untrusted files, so characters that a terminal would act on become '?'. */
static void tfm__write_char(tfm__writer *w, char c) {
    if (w->at < w->end) *w->at++ = ((unsigned char)c < 0x20 || c == 0x7f) ? '?' : c;
}
/* Long names keep both ends: their prefix and their last field say most. */
static void tfm__write_text(tfm__writer *w, const char *text) {
    size_t n = strlen(text), i;
    for (i = 0; i < n; i++) {
        if (n > 120 && i == 80) {
            tfm__write_text(w, "...");
            i = n - 37;
        }
        tfm__write_char(w, text[i]);
    }
}
/* The value is made unsigned first, because -INT64_MIN does not exist. */
static void tfm__write_int(tfm__writer *w, int64_t value) {
    char digits[24];
    int n = 0;
    uint64_t rest = value < 0 ? 0 - (uint64_t)value : (uint64_t)value;
    if (value < 0) tfm__write_char(w, '-');
    do {
        digits[n++] = (char)('0' + rest % 10);
        rest /= 10;
    } while (rest);
    while (n) tfm__write_char(w, digits[--n]);
}
/* Writes a shape as "[4, 10, 128]". */
static void tfm__write_shape(tfm__writer *w, const tfm_tensor *tensor) {
    int i;
    tfm__write_char(w, '[');
    for (i = 0; i < tensor->rank && i < TFM_MAX_RANK; i++) {
        if (i) tfm__write_text(w, ", ");
        tfm__write_int(w, tensor->dims[i]);
    }
    tfm__write_char(w, ']');
}

/* The words of a choice in model files, in the order of its enum. Old spellings follow, in the same
   order, which files of earlier versions have. */
typedef struct tfm__words {
    const char *const *words;
    int n, n_spellings;
    const char *prefix; /* and a word in capitals make the name in C */
} tfm__words;
#define TFM__WORDS(name, prefix, n, ...)                                                           \
    static const char *const name##_list[] = {__VA_ARGS__};                                        \
    typedef char name##_length[sizeof name##_list / sizeof *name##_list % (n) == 0 ? 1 : -1];      \
    static const tfm__words name = {name##_list, n, sizeof name##_list / sizeof *name##_list,      \
                                    prefix};
/* The words of a public enum, and the function that returns them. */
#define TFM__ENUM(name, type, prefix, ...)                                                         \
    TFM__WORDS(name, #prefix, prefix##COUNT, __VA_ARGS__)                                          \
    TFM_DEF const char *type##_name(type value) {                                                  \
        return (size_t)value < (size_t)name.n ? name.words[value] : "?";                           \
    }

/* clang-format off */
TFM__ENUM(tfm__norm_order_words, tfm_norm_order, TFM_NORM_ORDER_, "post", "pre")
TFM__ENUM(tfm__norm_kind_words, tfm_norm_kind, TFM_NORM_KIND_, "layer_norm", "layer_norm_unbiased",
          "rms_norm", /* to 0.6.0 */ "variance", "deviation", "rms")
TFM__ENUM(tfm__activation_words, tfm_activation, TFM_ACTIVATION_, "relu", "gelu", "gelu_tanh",
          "swish", "gelu_sigmoid")
TFM__ENUM(tfm__position_words, tfm_position_kind, TFM_POSITION_KIND_, "sinusoidal",
          "sinusoidal_halves", "sinusoidal_per_index", "learned", "none")
TFM__ENUM(tfm__text_words, tfm_text_kind, TFM_TEXT_KIND_, "words", "characters", "pieces",
          "sentencepiece", "bytes", "byte_bpe")
TFM__ENUM(tfm__language_words, tfm_language_use, TFM_LANGUAGE_USE_, "none", "source", "target")
TFM__ENUM(tfm__sentences_words, tfm_sentences, TFM_SENTENCES_, "unknown", "split", "whole")
TFM__ENUM(tfm__stop_words, tfm_stop, TFM_STOP_, "ctranslate2", "early_never", "early_true",
          "early_false", /* to 0.6.0 */ "enough", "sure", "full", "likely")
TFM__ENUM(tfm__repetition_words, tfm_repetition, TFM_REPETITION_, "target", "hugging_face")
TFM__WORDS(tfm__divisor_words, "", 2, "d", "d/2-1")
TFM__WORDS(tfm__precision_words, "", 2, "float", "double")
TFM__WORDS(tfm__pad_words, "", 2, "plain", "zero")
TFM__WORDS(tfm__scale_words, "", 1, "sqrt_d")
TFM__WORDS(tfm__rotary_words, "", 2, "halves", "interleaved")
TFM__WORDS(tfm__cross_words, "", 2, "own", "merged")
TFM__WORDS(tfm__start_words, "", 2, "token", "zero")
TFM__WORDS(tfm__forced_words, "", 2, "none", "forced")
TFM__WORDS(tfm__space_words, "", 3, "none", "add", "first")
TFM__WORDS(tfm__trailing_words, "", 3, "none", "keep", "strip")
TFM__WORDS(tfm__clean_words, "", 2, "none", "spaces")
TFM__WORDS(tfm__metadata_words, "", 5, "transformer.config", "format", "license", "source",
           "revision")
/* clang-format on */

/* Writes the words of a choice, "post|pre", or their names in C: "TFM_NORM_ORDER_POST or
   TFM_NORM_ORDER_PRE". */
static void tfm__write_choices(tfm__writer *w, const tfm__words *words, int in_c) {
    const char *c;
    int i;
    for (i = 0; i < words->n; i++) {
        if (i) tfm__write_text(w, !in_c ? "|" : i + 1 < words->n ? ", " : " or ");
        if (in_c) tfm__write_text(w, words->prefix);
        for (c = words->words[i]; *c; c++)
            tfm__write_char(w, in_c && *c >= 'a' && *c <= 'z' ? (char)(*c - 'a' + 'A') : *c);
    }
}

/* Formats a message without locale or stdio: %s is text, %d an int32_t, %i an int64_t, %t the shape
   of a tensor, %e the names of an enum in C, %w its words, %m the text of another message. */
static void tfm__vformat(char *out, size_t size, const char *format, va_list arguments) {
    const char *text;
    tfm__writer w;
    w.at = out;
    w.end = out + size - 1;
    for (; *format; format++) {
        if (*format != '%') tfm__write_char(&w, *format);
        else if (*++format == 's') tfm__write_text(&w, va_arg(arguments, const char *));
        else if (*format == 'd') tfm__write_int(&w, va_arg(arguments, int32_t));
        else if (*format == 'i') tfm__write_int(&w, va_arg(arguments, int64_t));
        else if (*format == 't') tfm__write_shape(&w, va_arg(arguments, const tfm_tensor *));
        else if (*format == 'm')
            for (text = va_arg(arguments, const char *); *text;) tfm__write_char(&w, *text++);
        else if (*format == 'e' || *format == 'w')
            tfm__write_choices(&w, va_arg(arguments, const tfm__words *), *format == 'e');
        else break;
    }
    *w.at = 0;
}

static void tfm__format(char *out, size_t size, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    tfm__vformat(out, size, format, arguments);
    va_end(arguments);
}

/* Fills err, if there is one, and returns the status: "return tfm__fail(err, TFM_E_..., ...)". */
static tfm_status tfm__fail(tfm_error *err, tfm_status status, const char *format, ...) {
    if (err) {
        va_list arguments;
        err->status = status;
        va_start(arguments, format);
        tfm__vformat(err->text, sizeof err->text, format, arguments);
        va_end(arguments);
    }
    return status;
}

TFM_DEF tfm_status tfm_sizes_check(const size_t *sizes, size_t n, tfm_error *err) {
#define TFM_X(type) {#type, sizeof(type)},
    static const struct {
        const char *name;
        size_t size;
    } here[] = {TFM_STRUCT_TABLE(TFM_X)};
#undef TFM_X
    const char *rest = "in the library, whose version is " TFM_VERSION ": compile with its header";
    size_t i, count = sizeof here / sizeof *here;
    if (!sizes) return tfm__fail(err, TFM_E_ARGUMENT, "sizes is NULL");
    for (i = 0; i < n && i < count; i++)
        if (sizes[i] != here[i].size)
            return tfm__fail(err, TFM_E_ARGUMENT, "%s has %i bytes here and %i %s", here[i].name,
                             (int64_t)sizes[i], (int64_t)here[i].size, rest);
    if (n == count) return TFM_OK;
    return tfm__fail(err, TFM_E_ARGUMENT, "there are %i structs here and %i %s", (int64_t)n,
                     (int64_t)count, rest);
}
#ifdef TFM__ANALYZED /* tests/analyze.sh: clang's analyzer does not look into variadic functions */
#define tfm__fail(err, status, ...) (tfm__fail(err, status, __VA_ARGS__), (status))
#endif

TFM_DEF const char *tfm_version(void) { return TFM_VERSION; }

TFM_DEF const char *tfm_status_text(tfm_status status) {
#define TFM_X(name, text) text,
    static const char *const texts[] = {TFM_STATUS_TABLE(TFM_X)};
#undef TFM_X
    return (int)status >= 0 && status < TFM_STATUS_COUNT ? texts[status] : "unknown status";
}

typedef int (*tfm__compare)(const void *a, const void *b);

/* Puts an item into the heap of n items, whose largest is on top, in place of the one at root. The
   larger children move up until a place is free at the bottom, and the item rises from there
   (Floyd). This takes half of the comparisons if it belongs near the bottom, as most items do. */
static void tfm__heap_put(void **items, int64_t root, int64_t n, void *item, tfm__compare compare) {
    int64_t at, child;
    for (at = root; (child = 2 * at + 1) < n; at = child) {
        if (child + 1 < n && compare(items[child], items[child + 1]) < 0) child++;
        items[at] = items[child];
    }
    for (; at > root && compare(items[(at - 1) / 2], item) < 0; at = (at - 1) / 2)
        items[at] = items[(at - 1) / 2];
    items[at] = item;
}
static void tfm__heap_make(void **items, int64_t n, tfm__compare compare) {
    int64_t i;
    for (i = n / 2 - 1; i >= 0; i--) tfm__heap_put(items, i, n, items[i], compare);
}
/* Sorts in place by heapsort, which is not stable. qsort may allocate and may be quadratic. */
static void tfm__sort(void **items, int64_t n, tfm__compare compare) {
    tfm__heap_make(items, n, compare);
    while (n-- > 1) {
        void *last = items[n];
        items[n] = items[0];
        tfm__heap_put(items, 0, n, last, compare);
    }
}

/* Bisection: sets low, an int64_t, to the first index from low to high - 1 for which is_before is
   false, or to high. is_before is an expression of middle, and true for a first part of them. */
#define TFM__BISECT(low, high, middle, is_before)                                                  \
    for (int64_t tfm__high = (high), middle; low < tfm__high;) {                                   \
        middle = low + (tfm__high - low) / 2;                                                      \
        TFM__COUNT_TEXT(1);                                                                        \
        if (is_before) low = middle + 1;                                                           \
        else tfm__high = middle;                                                                   \
    }

/* Returns the index of the first of n sorted items that does not come before key. */
static int64_t tfm__lower_bound(void *const *items, int64_t n, const void *key,
                                tfm__compare compare) {
    int64_t low = 0;
    TFM__BISECT(low, n, middle, compare(items[middle], key) < 0)
    return low;
}

/* >>memory ========================================================================================
   11. ALLOCATOR, POOL, ARENA
   tfm__allocate is the one place that calls an allocator. A pool is a list of allocations that are
   freed together: a model, a file's directory. An arena is a stack over memory that somebody else
   holds: a session's one allocation, a caller's scratch. Relies on checked sizes.
   ============================================================================================== */

static void *tfm__default_allocate(void *user, size_t bytes) {
    (void)user;
    return TFM_MALLOC(bytes);
}
static void tfm__default_release(void *user, void *pointer) {
    (void)user;
    TFM_FREE(pointer);
}

/* Sets chosen to wanted, or to malloc and free if wanted is NULL or all zero. */
static tfm_status tfm__choose_allocator(tfm_allocator *chosen, const tfm_allocator *wanted,
                                        tfm_error *err) {
    static const tfm_allocator standard = {tfm__default_allocate, tfm__default_release, NULL};
    *chosen = wanted && (wanted->allocate || wanted->release) ? *wanted : standard;
    if (chosen->allocate && chosen->release) return TFM_OK;
    return tfm__fail(err, TFM_E_ARGUMENT,
                     "allocator has only one of allocate and release: set both, or neither for "
                     "malloc and free");
}

/* Allocates bytes, or returns the status that says why not. No caller asks for zero bytes, because
   an allocator may return NULL for them. */
static tfm_status tfm__allocate(const tfm_allocator *allocator, int64_t bytes, void **pointer,
                                tfm_error *err) {
    if ((uint64_t)bytes > (uint64_t)(SIZE_MAX / 2)) /* or negative */
        return tfm__fail(err, TFM_E_OVERFLOW, "%i bytes are more than this machine can address",
                         bytes);
    *pointer = allocator->allocate(allocator->user, (size_t)bytes);
    if (!*pointer) return tfm__fail(err, TFM_E_MEMORY, "no memory for %i bytes", bytes);
    return TFM_OK;
}

/* Gives the system advice about memory that begins at a huge page and will be used from end to end.
   With huge pages, a page fault and an entry of the TLB cover 2 MB, not 4 KB. TFM__POPULATE makes
   the pages at once, with less work than one fault each. If the system refuses, nothing changes. */
enum { TFM__HUGE_PAGES = 14, TFM__SMALL_PAGES = 15, TFM__POPULATE = 23, TFM__HUGE_PAGE = 2 << 20 };
static void tfm__advise(void *memory, int64_t bytes, long advice) {
#ifdef TFM__SYSTEM_CALLS
#ifdef __x86_64__
    const long advise = 28;
#else
    const long advise = 233;
#endif
    (void)syscall(advise, memory, bytes - bytes % 65536, advice); /* a multiple of any page size */
#else
    (void)memory, (void)bytes, (void)advice;
#endif
}

/* Returns 1 if memory of this size comes from malloc and begins at a huge page. */
static int tfm__is_huge(const tfm_allocator *allocator, int64_t bytes) {
#if defined(TFM__SYSTEM_CALLS) && defined(TFM__LIBC_MALLOC)
    return allocator->allocate == tfm__default_allocate && bytes >= 2 * TFM__HUGE_PAGE;
#else
    (void)allocator, (void)bytes;
    return 0;
#endif
}

/* Returns the bytes from pointer to the next multiple of TFM__ALIGN. */
static size_t tfm__padding(const void *pointer) {
    return (TFM__ALIGN - (size_t)((uintptr_t)pointer % TFM__ALIGN)) % TFM__ALIGN;
}

typedef struct tfm__block {
    struct tfm__block *next;
} tfm__block;

typedef struct tfm__pool {
    tfm_allocator allocator;
    tfm__block *blocks;
} tfm__pool;

/* Allocates count * size aligned bytes that live as long as the pool. *pointer: see tfm__take. */
static tfm_status tfm__pool_take(tfm__pool *pool, int64_t count, size_t size, void *pointer,
                                 tfm_error *err) {
    int64_t bytes = 0, all;
    int fits = tfm__mul(count, (int64_t)size, &bytes);
    const int is_huge = fits && tfm__is_huge(&pool->allocator, bytes);
    const int align = is_huge ? (int)TFM__HUGE_PAGE : (int)TFM__ALIGN;
    void *memory;
    char *start;
    if (!fits || !tfm__add(bytes, align + (int64_t)sizeof(tfm__block), &all))
        return tfm__fail(err, TFM_E_OVERFLOW, "%i elements of %i bytes overflow", count,
                         (int64_t)size);
    TFM__TRY(tfm__allocate(&pool->allocator, all, &memory, err));
    ((tfm__block *)memory)->next = pool->blocks;
    pool->blocks = (tfm__block *)memory;
    start = (char *)memory + sizeof(tfm__block);
    start += -(uintptr_t)start & (uintptr_t)(align - 1);
    if (is_huge) tfm__advise(start, bytes, TFM__HUGE_PAGES);
    memcpy(pointer, &start, sizeof start);
    return TFM_OK;
}
#define TFM__NEW(pool, count, pointer, err)                                                        \
    tfm__pool_take(pool, count, sizeof **(pointer), pointer, err)

/* Makes a zeroed object of size bytes. Its first member is the pool in which it lives. */
static tfm_status tfm__pool_make(const tfm_allocator *allocator, size_t size, void *object,
                                 tfm_error *err) {
    tfm__pool pool, *own = NULL;
    pool.blocks = NULL;
    TFM__TRY(tfm__choose_allocator(&pool.allocator, allocator, err));
    TFM__TRY(tfm__pool_take(&pool, 1, size, &own, err));
    memset(own, 0, size);
    *own = pool;
    memcpy(object, &own, sizeof own);
    return TFM_OK;
}

/* Frees all blocks. pool is a copy, because one of its blocks may hold the original. */
static void tfm__pool_free(tfm__pool pool) {
    while (pool.blocks) {
        tfm__block *block = pool.blocks;
        pool.blocks = block->next;
        pool.allocator.release(pool.allocator.user, block);
    }
}

TFM_DEF tfm_arena tfm_arena_make(void *memory, size_t bytes) {
    tfm_arena arena;
    size_t padding = tfm__padding(memory);
    memset(&arena, 0, sizeof arena);
    if (!memory || padding > bytes) return arena;
    arena.data = (unsigned char *)memory + padding;
    arena.size = bytes - padding;
    return arena;
}

TFM_DEF tfm_arena tfm_arena_measuring(void) {
    tfm_arena arena = tfm_arena_make(NULL, 0);
    arena.measuring = 1;
    arena.size = SIZE_MAX / 2;
    return arena;
}

/* A measuring arena runs the same code and only leaves the pointer NULL, so both sizes agree. */
TFM_DEF tfm_status tfm_arena_take(tfm_arena *arena, int64_t count, size_t size, void **pointer,
                                  tfm_error *err) {
    int64_t bytes, used;
    if (!arena || !pointer) return tfm__fail(err, TFM_E_ARGUMENT, "arena or pointer is NULL");
    if (!tfm__mul(count, (int64_t)size, &bytes) || !tfm__add(bytes, TFM__ALIGN - 1, &bytes))
        return tfm__fail(err, TFM_E_OVERFLOW, "%i elements of %i bytes overflow", count,
                         (int64_t)size);
    bytes -= bytes % TFM__ALIGN;
    if (!tfm__add((int64_t)arena->used, bytes, &used) ||
        (uint64_t)used > (uint64_t)(SIZE_MAX / 2 - TFM__ALIGN))
        return tfm__fail(err, TFM_E_OVERFLOW, "%i bytes are more than this machine can address",
                         bytes);
    if ((size_t)used > arena->size && !arena->measuring)
        return tfm__fail(err, TFM_E_ARENA, "scratch arena has %i bytes, %i are needed",
                         (int64_t)arena->size, used + TFM__ALIGN - 1);
    *pointer = arena->data && (size_t)used <= arena->size ? arena->data + arena->used : NULL;
    arena->used = (size_t)used;
    /* the buffer may start anywhere, so a measured size includes padding to its first boundary */
    if (arena->peak < arena->used + TFM__ALIGN - 1) arena->peak = arena->used + TFM__ALIGN - 1;
    return TFM_OK;
}

/* A call takes all its scratch from this copy, which counts past the arena's end. Before anything
   is computed, tfm__scratch_end refuses an arena that is too small for the sum. */
static tfm_arena tfm__scratch_begin(const tfm_arena *scratch) {
    tfm_arena all = *scratch;
    all.measuring = 1;
    return all;
}
static tfm_status tfm__scratch_end(tfm_arena *scratch, const tfm_arena *all, tfm_error *err) {
    size_t need = all->used + TFM__ALIGN - 1;
    if (all->used > scratch->size)
        return tfm__fail(err, TFM_E_ARENA, "scratch arena has %i bytes, %i are needed",
                         (int64_t)scratch->size, (int64_t)need);
    if (scratch->peak < need) scratch->peak = need;
    return TFM_OK;
}

/* Takes rows * columns elements for *pointer, which may be any object pointer. memcpy sets it,
   because a T ** is not a void **. *pointer is NULL while measuring and on failure. */
static tfm_status tfm__take(tfm_arena *arena, int64_t rows, int64_t columns, size_t size,
                            void *pointer, tfm_error *err) {
    int64_t count;
    void *memory = NULL;
    tfm_status status;
    if (!tfm__mul(rows, columns, &count)) count = INT64_MAX; /* which is refused */
    status = tfm_arena_take(arena, count, size, &memory, err);
    memcpy(pointer, &memory, sizeof memory);
    return status;
}
#define TFM__TAKE(arena, rows, columns, pointer, err)                                              \
    tfm__take(arena, rows, columns, sizeof **(pointer), pointer, err)

/* >>tensors =======================================================================================
   12. TENSORS AND THE VIEWS THAT MODULES TAKE OF THEM
   Public tensors have any rank; inside, everything is tfm__rows: B blocks of L rows of D floats.
   The checks here are what makes the computations behind them safe: after tfm__view or
   tfm__check_shape nobody looks at a tensor's header again.
   ============================================================================================== */

/* clang-format off */
static const struct {
    const char *name;
    int bits;
    char kind; /* w: of weights, i: signed integers, u: unsigned ones; 0: others */
} tfm__dtypes[] = {
    {"F32", 32, 'w'}, {"F16", 16, 'w'}, {"BF16", 16, 'w'}, {"F64", 64, 0}, {"BOOL", 8, 'u'},
    {"U8", 8, 'u'}, {"I8", 8, 'i'}, {"I16", 16, 'i'}, {"U16", 16, 'u'}, {"I32", 32, 'i'},
    {"U32", 32, 'u'}, {"I64", 64, 'i'}, {"U64", 64, 'u'}, {"C64", 64, 0}, {"F8_E5M2", 8, 0},
    {"F8_E4M3", 8, 0}, {"F8_E8M0", 8, 0}, {"F8_E4M3FNUZ", 8, 0}, {"F8_E5M2FNUZ", 8, 0},
    {"F6_E2M3", 6, 0}, {"F6_E3M2", 6, 0}, {"F4", 4, 0}};
/* clang-format on */
TFM__LENGTH_IS(tfm__dtypes, TFM_DTYPE_COUNT);

TFM_DEF const char *tfm_dtype_name(tfm_dtype dtype) {
    return (int)dtype >= 0 && dtype < TFM_DTYPE_COUNT ? tfm__dtypes[dtype].name : "?";
}
TFM_DEF int tfm_dtype_bits(tfm_dtype dtype) {
    return (int)dtype >= 0 && dtype < TFM_DTYPE_COUNT ? tfm__dtypes[dtype].bits : 0;
}

/* Each stride is the product of the later dimensions. */
TFM_DEF tfm_tensor tfm_tensor_make(void *data, tfm_dtype dtype, int rank, const int64_t *dims) {
    tfm_tensor tensor;
    int i;
    memset(&tensor, 0, sizeof tensor);
    tensor.data = data;
    tensor.dtype = dtype;
    tensor.rank = rank < 0 ? 0 : rank > TFM_MAX_RANK ? TFM_MAX_RANK : rank;
    for (i = tensor.rank - 1; i >= 0; i--) {
        tensor.dims[i] = dims[i];
        /* a product that wraps belongs to a tensor that the dimension checks refuse */
        if (i + 1 == tensor.rank) tensor.strides[i] = 1;
        else if (!tfm__mul(tensor.strides[i + 1], dims[i + 1], &tensor.strides[i]))
            tensor.strides[i] = -1;
    }
    return tensor;
}
TFM_DEF tfm_tensor tfm_tensor_1d(void *data, tfm_dtype dtype, int64_t d0) {
    return tfm_tensor_make(data, dtype, 1, &d0);
}
TFM_DEF tfm_tensor tfm_tensor_2d(void *data, tfm_dtype dtype, int64_t d0, int64_t d1) {
    int64_t dims[2] = {d0, d1};
    return tfm_tensor_make(data, dtype, 2, dims);
}
TFM_DEF tfm_tensor tfm_tensor_3d(void *data, tfm_dtype dtype, int64_t d0, int64_t d1, int64_t d2) {
    int64_t dims[3] = {d0, d1, d2};
    return tfm_tensor_make(data, dtype, 3, dims);
}
TFM_DEF tfm_tensor tfm_tensor_4d(void *data, tfm_dtype dtype, int64_t d0, int64_t d1, int64_t d2,
                                 int64_t d3) {
    int64_t dims[4] = {d0, d1, d2, d3};
    return tfm_tensor_make(data, dtype, 4, dims);
}

/* The last dimension is not swapped, because every loop needs its elements side by side. */
TFM_DEF tfm_tensor tfm_tensor_swap(tfm_tensor tensor, int a, int b) {
    tfm_tensor swapped = tensor;
    if (a < 0 || b < 0 || a >= tensor.rank - 1 || b >= tensor.rank - 1) return tensor;
    swapped.dims[a] = tensor.dims[b];
    swapped.dims[b] = tensor.dims[a];
    swapped.strides[a] = tensor.strides[b];
    swapped.strides[b] = tensor.strides[a];
    return swapped;
}

typedef struct tfm__rows {
    float *data;
    int64_t B, L, D; /* blocks, rows of a block, floats of a row */
    int64_t sb, sl;  /* strides of blocks and rows, in floats */
} tfm__rows;

/* Returns rows that view row-major [B, L, D] at data. */
static tfm__rows tfm__rows_make(float *data, int64_t B, int64_t L, int64_t D) {
    tfm__rows r = {data, B, L, D, L * D, D};
    return r;
}

/* Checks that a tensor is there, and has this dtype, a possible shape, and a last stride of 1. */
static tfm_status tfm__check_tensor(const tfm_tensor *t, const char *name, tfm_dtype dtype,
                                    int min_rank, int max_rank, tfm_error *err) {
    int64_t count = 1;
    int i;
    if (!t) return tfm__fail(err, TFM_E_ARGUMENT, "%s is NULL", name);
    if (t->dtype != dtype)
        return tfm__fail(err, TFM_E_DTYPE, "%s is %s, expected %s", name, tfm_dtype_name(t->dtype),
                         tfm_dtype_name(dtype));
    if (t->rank < min_rank || t->rank > max_rank)
        return tfm__fail(err, TFM_E_SHAPE, "%s has rank %d, expected %d to %d", name, t->rank,
                         min_rank, max_rank);
    for (i = 0; i < t->rank; i++)
        if (!tfm__mul(count, t->dims[i], &count))
            return tfm__fail(err, TFM_E_SHAPE, "%s has the impossible shape %t", name, t);
    if (!t->data && count) return tfm__fail(err, TFM_E_ARGUMENT, "%s has no data", name);
    if (t->dims[t->rank - 1] > 1 && t->strides[t->rank - 1] != 1)
        return tfm__fail(err, TFM_E_SHAPE, "%s: the last stride is %i, expected 1", name,
                         t->strides[t->rank - 1]);
    return TFM_OK;
}

/* Checks a tensor, its type and its exact dimensions. */
static tfm_status tfm__check_shape(const tfm_tensor *t, const char *name, tfm_tensor expected,
                                   tfm_error *err) {
    int i;
    TFM__TRY(tfm__check_tensor(t, name, expected.dtype, expected.rank, expected.rank, err));
    for (i = 0; i < t->rank; i++)
        if (t->dims[i] != expected.dims[i])
            return tfm__fail(err, TFM_E_SHAPE, "%s is %t, expected %t", name, t, &expected);
    return TFM_OK;
}

/* Does the same for a tensor that may be absent: NULL, or without data. */
static tfm_status tfm__check_optional(const tfm_tensor *t, const char *name, tfm_tensor expected,
                                      tfm_error *err) {
    return t && t->data ? tfm__check_shape(t, name, expected, err) : TFM_OK;
}

/* Views an F32 tensor as blocks of rows. Dimensions before the last three must be contiguous. */
static tfm_status tfm__view(const tfm_tensor *t, const char *name, int min_rank, int max_rank,
                            tfm__rows *rows, tfm_error *err) {
    int last, i;
    TFM__TRY(tfm__check_tensor(t, name, TFM_DTYPE_F32, min_rank, max_rank, err));
    last = t->rank - 1;
    rows->data = (float *)t->data;
    rows->D = t->dims[last];
    rows->L = last >= 1 ? t->dims[last - 1] : 1;
    rows->sl = last >= 1 ? t->strides[last - 1] : rows->D;
    rows->B = last >= 2 ? t->dims[last - 2] : 1;
    rows->sb = last >= 2 ? t->strides[last - 2] : rows->L * rows->sl;
    for (i = last - 3; i >= 0; i--) {
        if (t->dims[i] != 1 && rows->B != 1 && t->strides[i] != rows->B * rows->sb)
            return tfm__fail(err, TFM_E_SHAPE, "%s: dimension %d must be contiguous", name, i);
        if (rows->B == 1) rows->sb = t->strides[i];
        rows->B *= t->dims[i];
    }
    return TFM_OK;
}

/* Checks that an enum has a value of its words; name and part name it in the message. */
static tfm_status tfm__check_choice(int value, const tfm__words *words, const char *name,
                                    const char *part, tfm_error *err) {
    if (value >= 0 && value < words->n) return TFM_OK;
    return tfm__fail(err, TFM_E_ARGUMENT, "%s%s is %d, expected %e", name, part, (int32_t)value,
                     words);
}

static tfm_status tfm__view_like(const tfm_tensor *t, const char *name, tfm_tensor expected,
                                 tfm__rows *rows, tfm_error *err) {
    TFM__TRY(tfm__check_shape(t, name, expected, err));
    return tfm__view(t, name, 1, TFM_MAX_RANK, rows, err);
}

static float *tfm__row(const tfm__rows *r, int64_t b, int64_t l) {
    return r->data + b * r->sb + l * r->sl;
}

/* Copies rows to others of the same shape, which do not overlap them. */
static void tfm__copy_rows(const tfm__rows *to, const tfm__rows *from) {
    int64_t b, l;
    for (b = 0; b < from->B; b++)
        for (l = 0; l < from->L; l++)
            memcpy(tfm__row(to, b, l), tfm__row(from, b, l), (size_t)from->D * sizeof(float));
}

/* ---- elements ---- */

/* Reads a little-endian number of n bytes at any address. Compilers make one load of it. */
static uint64_t tfm__little_endian(const unsigned char *bytes, int n) {
    uint64_t value = 0;
    while (n--) value = value << 8 | bytes[n];
    return value;
}

static int tfm__is_little_endian(void) {
    static const uint16_t one = 1;
    return *(const unsigned char *)&one;
}

static float tfm__float_from_bits(uint32_t bits) {
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* Converts IEEE binary16, which has 5 bits of exponent with bias 15 and 10 of mantissa. Exponent 31
   is infinity or NaN; exponent 0 counts in steps of 2^-24. */
static float tfm__float_from_half(uint32_t h) {
    uint32_t sign = (h & 0x8000u) << 16, exponent = h >> 10 & 31, mantissa = h & 0x3FF;
    if (exponent == 31) return tfm__float_from_bits(sign | 0x7F800000u | mantissa << 13);
    if (exponent) return tfm__float_from_bits(sign | (exponent + 112) << 23 | mantissa << 13);
    return (sign ? -1.0f : 1.0f) * (float)mantissa * (1.0f / 16777216.0f); /* 2^-24 */
}

/* Converts n elements of F32, F16, BF16 or I8, as a file has them, to floats. */
static void tfm__widen(float *out, const unsigned char *bytes, tfm_dtype dtype, int64_t n) {
    int width = tfm__dtypes[dtype].bits / 8;
    int64_t i;
    for (i = 0; i < n; i++) {
        uint32_t bits = (uint32_t)tfm__little_endian(bytes + width * i, width);
        if (dtype == TFM_DTYPE_F16) out[i] = tfm__float_from_half(bits);
        else if (dtype == TFM_DTYPE_I8) out[i] = (float)(signed char)bits;
        else out[i] = tfm__float_from_bits(dtype == TFM_DTYPE_BF16 ? bits << 16 : bits);
    }
}

/* Returns the F16 that is nearest to a float. If two are equally near, it returns the even one. */
static uint32_t tfm__half_from_float(float value) {
    uint32_t bits, sign, rest;
    memcpy(&bits, &value, sizeof bits);
    sign = bits >> 16 & 0x8000u;
    bits &= 0x7FFFFFFFu;
    if (bits > 0x7F800000u) return sign | 0x7E00u;  /* NaN */
    if (bits >= 0x477FF000u) return sign | 0x7C00u; /* 65520 and more round to infinity */
    if (bits < 0x38800000u) { /* below 2^-14: steps of 2^-24, which the sum rounds to */
        float size = tfm__float_from_bits(bits) + 0.5f;
        memcpy(&rest, &size, sizeof rest);
        return sign | (rest - 0x3F000000u);
    }
    return sign | ((bits + 0xFFFu + (bits >> 13 & 1u) - 0x38000000u) >> 13);
}

/* Converts n floats to F32, F16 or BF16. */
static void tfm__narrow(unsigned char *bytes, const float *x, tfm_dtype dtype, int64_t n) {
    int64_t i;
    if (dtype == TFM_DTYPE_F32) memcpy(bytes, x, (size_t)n * sizeof *x);
    for (i = 0; dtype != TFM_DTYPE_F32 && i < n; i++) {
        uint32_t bits;
        uint16_t narrow;
        memcpy(&bits, x + i, sizeof bits);
        if (dtype == TFM_DTYPE_F16) bits = tfm__half_from_float(x[i]);
        else if ((bits & 0x7FFFFFFFu) > 0x7F800000u) bits = bits >> 16 | 0x40u; /* NaN */
        else bits = (bits + 0x7FFFu + (bits >> 16 & 1u)) >> 16;
        narrow = (uint16_t)bits;
        memcpy(bytes + 2 * i, &narrow, sizeof narrow);
    }
}

/* >>threads =======================================================================================
   13. THREADS
   A pass divides its products into parts by rows (if there are many) or columns, and its attention
   by heads. Parts write to different memory and share no sum, so results are the same bits with any
   number of threads. The host's parallel-for runs the parts, or the session's own threads do, which
   look for work for some microseconds before they sleep. The calling thread takes every part that
   no other thread has begun, so it never waits for one that sleeps or has no core.
   ============================================================================================== */

enum { TFM__MOST_THREADS = 64 }; /* of a session, the caller's included */

typedef struct tfm__kernels tfm__kernels;

/* Who computes: the inner loops of a model, and the threads that share its work. */
typedef struct tfm__team {
    const tfm__kernels *kernels;
    tfm_parallel parallel;
    struct tfm__workers *workers; /* the threads that parallel uses; NULL: the host's */
    int32_t n;                    /* threads, with the calling one */
    unsigned char *converted;     /* room for a product's converted x; NULL: x is floats always */
    float *scales;                /* [rows]: their scales, if x becomes int8 */
} tfm__team;

/* Calls task(context, part) for each part, by several threads if there are several parts. */
static void tfm__team_run(const tfm__team *team, tfm_task task, void *context, int32_t parts) {
    int32_t part;
    if (team->n > 1 && parts > 1) team->parallel.run(team->parallel.user, task, context, parts);
    else
        for (part = 0; part < parts; part++) task(context, part);
}

#ifdef TFM__THREADS

enum {
    TFM__POLLS = 4000,    /* polls for work before a thread sleeps */
    TFM__YIELD_COST = 64, /* polls that a yield counts as */
    TFM__NO_CORE = 9999   /* the system does not say which core a thread runs on */
};

/* The system's functions: atomic words that all threads see change in one order, the core that a
   thread runs on, mutexes and condition variables. */
#ifdef _WIN32
typedef uint64_t tfm__atomic;
typedef HANDLE tfm__thread;
typedef SRWLOCK tfm__mutex;
typedef CONDITION_VARIABLE tfm__condition;
#define TFM__THREAD_MAIN DWORD WINAPI

static uint64_t tfm__atomic_load(tfm__atomic *at) {
    return (uint64_t)InterlockedCompareExchange64((volatile LONG64 *)at, 0, 0);
}
static void tfm__atomic_store(tfm__atomic *at, uint64_t value) {
    (void)InterlockedExchange64((volatile LONG64 *)at, (LONG64)value);
}
static int tfm__atomic_exchange(tfm__atomic *at, uint64_t from, uint64_t to) {
    return InterlockedCompareExchange64((volatile LONG64 *)at, (LONG64)to, (LONG64)from) ==
           (LONG64)from;
}
static void tfm__atomic_increment(tfm__atomic *at) {
    (void)InterlockedIncrement64((volatile LONG64 *)at);
}
static void tfm__thread_yield(void) { (void)SwitchToThread(); }
static uint64_t tfm__thread_core(void) { return GetCurrentProcessorNumber(); }

static int tfm__mutex_init(tfm__mutex *mutex, tfm__condition *wake) {
    InitializeSRWLock(mutex);
    InitializeConditionVariable(wake);
    return 1;
}
static void tfm__mutex_destroy(tfm__mutex *mutex, tfm__condition *wake) { (void)mutex, (void)wake; }
static void tfm__mutex_lock(tfm__mutex *mutex) { AcquireSRWLockExclusive(mutex); }
static int tfm__mutex_try_lock(tfm__mutex *mutex) { return TryAcquireSRWLockExclusive(mutex) != 0; }
static void tfm__mutex_unlock(tfm__mutex *mutex) { ReleaseSRWLockExclusive(mutex); }
static void tfm__condition_wait(tfm__condition *wake, tfm__mutex *mutex) {
    (void)SleepConditionVariableSRW(wake, mutex, INFINITE, 0);
}
static void tfm__condition_wake_all(tfm__condition *wake) { WakeAllConditionVariable(wake); }

static int tfm__thread_start(tfm__thread *thread, DWORD(WINAPI *run)(void *), void *context) {
    *thread = CreateThread(NULL, 0, run, context, 0, NULL);
    return *thread != NULL;
}
static void tfm__thread_join(tfm__thread thread) {
    (void)WaitForSingleObject(thread, INFINITE);
    (void)CloseHandle(thread);
}
#else
typedef uint64_t tfm__atomic __attribute__((aligned(8))); /* i386 has it at 4 */
typedef pthread_t tfm__thread;
typedef pthread_mutex_t tfm__mutex;
typedef pthread_cond_t tfm__condition;
#define TFM__THREAD_MAIN void *

static uint64_t tfm__atomic_load(tfm__atomic *at) { return __atomic_load_n(at, __ATOMIC_SEQ_CST); }
static void tfm__atomic_store(tfm__atomic *at, uint64_t value) {
    __atomic_store_n(at, value, __ATOMIC_SEQ_CST);
}
static int tfm__atomic_exchange(tfm__atomic *at, uint64_t from, uint64_t to) {
    return __atomic_compare_exchange_n(at, &from, to, 0, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE);
}
static void tfm__atomic_increment(tfm__atomic *at) {
    (void)__atomic_add_fetch(at, 1, __ATOMIC_RELEASE);
}
static void tfm__thread_yield(void) { (void)sched_yield(); }
#if defined(__linux__) && !defined(__UCLIBC__)
#if !defined(__USE_GNU) && (!defined(_GNU_SOURCE) || defined(__GLIBC__))
extern int sched_getcpu(void); /* sched.h has it for those who ask for all of GNU's */
#endif
static uint64_t tfm__thread_core(void) { return (uint64_t)sched_getcpu(); }
#else
static uint64_t tfm__thread_core(void) { return TFM__NO_CORE; }
#endif

static int tfm__mutex_init(tfm__mutex *mutex, tfm__condition *wake) {
    if (pthread_mutex_init(mutex, NULL) != 0) return 0;
    if (pthread_cond_init(wake, NULL) == 0) return 1;
    pthread_mutex_destroy(mutex);
    return 0;
}
static void tfm__mutex_destroy(tfm__mutex *mutex, tfm__condition *wake) {
    pthread_cond_destroy(wake);
    pthread_mutex_destroy(mutex);
}
static void tfm__mutex_lock(tfm__mutex *mutex) { pthread_mutex_lock(mutex); }
static int tfm__mutex_try_lock(tfm__mutex *mutex) { return pthread_mutex_trylock(mutex) == 0; }
static void tfm__mutex_unlock(tfm__mutex *mutex) { pthread_mutex_unlock(mutex); }
static void tfm__condition_wait(tfm__condition *c, tfm__mutex *m) { pthread_cond_wait(c, m); }
static void tfm__condition_wake_all(tfm__condition *wake) { pthread_cond_broadcast(wake); }

static int tfm__thread_start(tfm__thread *thread, void *(*run)(void *), void *context) {
    return pthread_create(thread, NULL, run, context) == 0;
}
static void tfm__thread_join(tfm__thread thread) { pthread_join(thread, NULL); }
#endif

/* The current work in one word: its number, and the parts that no thread has begun, from `next` to
   `end`. A thread takes a part by an atomic exchange, which fails if the work has changed. */
#define TFM__TICKET(number, end, next)                                                             \
    ((uint64_t)(number) << 32 | (uint64_t)(end) << 16 | (uint64_t)(next))

typedef struct tfm__workers {
    tfm__thread threads[TFM__MOST_THREADS];
    int32_t n; /* threads besides the caller's */
    tfm__mutex mutex;
    tfm__condition wake;
    int32_t asleep;     /* under the mutex */
    tfm__atomic wanted; /* 1: a thread sleeps, or will soon, and has not been woken */
    tfm__atomic ticket;
    tfm__atomic core; /* on which the calling thread runs */
    tfm__atomic seen; /* number of the last work that a thread found */
    tfm__atomic done; /* parts of the current work */
    tfm__atomic stop;
    tfm_task task; /* of the current work; unchanged until all its parts are done */
    void *context;
} tfm__workers;

static void tfm__thread_pause(void) {
#if defined(__GNUC__) && (defined(__x86_64__) || defined(__i386__))
    __builtin_ia32_pause();
#endif
}

static uint32_t tfm__workers_number(tfm__workers *w) {
    return (uint32_t)(tfm__atomic_load(&w->ticket) >> 32);
}

/* Runs parts of work `number` until none is left. The calling thread takes the first, other threads
   the last, so a core finds much of what it wrote in the work before in its own cache. */
static void tfm__workers_drain(tfm__workers *w, uint32_t number, int from_end) {
    for (;;) {
        uint64_t ticket = tfm__atomic_load(&w->ticket);
        uint32_t end = (uint32_t)(ticket >> 16) & 0xFFFF, next = (uint32_t)ticket & 0xFFFF, part;
        if ((uint32_t)(ticket >> 32) != number || next >= end) return;
        part = from_end ? --end : next++;
        if (!tfm__atomic_exchange(&w->ticket, ticket, TFM__TICKET(number, end, next))) continue;
        w->task(w->context, (int32_t)part);
        tfm__atomic_increment(&w->done);
    }
}

/* Returns whether this thread runs on the calling thread's core, where it does not work. Schedulers
   wake it there although another core is idle if, as in a guest, that core looks busy. */
static int tfm__workers_crowded(tfm__workers *w) {
    uint64_t core = tfm__thread_core();
    return core != TFM__NO_CORE && core == tfm__atomic_load(&w->core);
}

/* Returns the number of the next work after `seen`. Sleeps if there is none soon. */
static uint32_t tfm__workers_wait(tfm__workers *w, uint32_t seen) {
    uint32_t number = seen;
    int i;
    for (i = 0; i < TFM__POLLS; i++) {
        number = tfm__workers_number(w);
        if (number != seen) return number;
        if (tfm__workers_crowded(w)) tfm__thread_yield(), i += TFM__YIELD_COST;
        else tfm__thread_pause();
    }
    tfm__mutex_lock(&w->mutex);
    w->asleep++;
    for (;;) {
        /* before the last look, so that every later post sees it */
        tfm__atomic_store(&w->wanted, 1);
        number = tfm__workers_number(w);
        if (number != seen) break;
        tfm__condition_wait(&w->wake, &w->mutex);
    }
    w->asleep--;
    tfm__mutex_unlock(&w->mutex);
    return number;
}

static TFM__THREAD_MAIN tfm__workers_main(void *workers) {
    tfm__workers *w = (tfm__workers *)workers;
    uint32_t number = 0;
    for (;;) {
        number = tfm__workers_wait(w, number);
        if (tfm__atomic_load(&w->stop)) return 0;
        if (tfm__workers_crowded(w)) continue;
        tfm__atomic_store(&w->seen, number);
        tfm__workers_drain(w, number, 1);
    }
}

/* Wakes all threads. The caller holds the mutex. */
static void tfm__workers_wake(tfm__workers *w) {
    tfm__atomic_store(&w->wanted, 0);
    tfm__condition_wake_all(&w->wake);
}

/* Publishes the next work and returns its number. If the mutex is held, threads that sleep are left
   for the next post to wake, because waiting for it would cost more than they would give. */
static uint32_t tfm__workers_post(tfm__workers *w, int32_t parts) {
    uint32_t number = tfm__workers_number(w) + 1;
    uint64_t core = tfm__thread_core();
    if (core != tfm__atomic_load(&w->core)) tfm__atomic_store(&w->core, core);
    tfm__atomic_store(&w->ticket, TFM__TICKET(number, parts, 0));
    if (tfm__atomic_load(&w->wanted) && tfm__mutex_try_lock(&w->mutex)) {
        tfm__workers_wake(w);
        tfm__mutex_unlock(&w->mutex);
    }
    return number;
}

/* Returns whether a thread has found one of the last works. If not, wakes all with empty work. */
static int tfm__workers_awake(tfm__workers *w) {
    if (tfm__workers_number(w) - (uint32_t)tfm__atomic_load(&w->seen) <= 2) return 1;
    (void)tfm__workers_post(w, 0);
    return 0;
}

/* Implements run of tfm_parallel. A thread that sleeps too long misses the work. */
static void tfm__workers_run(void *workers, tfm_task task, void *context, int32_t parts) {
    tfm__workers *w = (tfm__workers *)workers;
    int i;
    w->task = task, w->context = context;
    tfm__atomic_store(&w->done, 0);
    tfm__workers_drain(w, tfm__workers_post(w, parts), 0);
    for (i = 0; tfm__atomic_load(&w->done) != (uint64_t)parts; i++) {
        if (i < TFM__POLLS) tfm__thread_pause();
        else tfm__thread_yield(); /* the thread with the last part may need this core */
    }
}

static void tfm__workers_stop(tfm__workers *w) {
    int32_t i;
    tfm__atomic_store(&w->stop, 1);
    (void)tfm__workers_post(w, 0);
    tfm__mutex_lock(&w->mutex);
    tfm__workers_wake(w);
    tfm__mutex_unlock(&w->mutex);
    for (i = 0; i < w->n; i++) tfm__thread_join(w->threads[i]);
    tfm__mutex_destroy(&w->mutex, &w->wake);
}

/* Starts n threads besides the calling one. If one cannot start, stops those that did. */
static tfm_status tfm__workers_start(tfm__workers *w, int32_t n, tfm_error *err) {
    memset(w, 0, sizeof *w);
    if (!tfm__mutex_init(&w->mutex, &w->wake))
        return tfm__fail(err, TFM_E_MEMORY, "no mutex or condition variable for threads");
    for (; w->n < n; w->n++)
        if (!tfm__thread_start(&w->threads[w->n], tfm__workers_main, w)) {
            tfm__workers_stop(w);
            return tfm__fail(err, TFM_E_MEMORY, "thread %i of %i cannot be started",
                             (int64_t)w->n + 2, (int64_t)n + 1);
        }
    return TFM_OK;
}
#endif /* TFM__THREADS */

enum {
    TFM__WORTH_SHARING = 1 << 18, /* operations that take some microseconds */
    TFM__WORTH_WAKING = 1 << 24,  /* operations that take as long as waking a thread */
    TFM__NORM_COST = 16           /* operations that take as long as normalizing a number */
};

/* Returns whether dividing this many operations pays. If threads sleep, work that would be done
   before they wake is not divided. */
static int tfm__team_shares(const tfm__team *team, int64_t operations) {
    if (team->n < 2 || operations < TFM__WORTH_SHARING) return 0;
#ifdef TFM__THREADS
    if (team->workers && operations < TFM__WORTH_WAKING) return tfm__workers_awake(team->workers);
#endif
    return 1;
}

/* >>kernels =======================================================================================
   14. KERNELS
   Nearly all time is spent in kernels. A kernel set (tfm__kernels) is a table of functions for one
   instruction set. This section has the types, the choice of a set, and the plain loops, which
   define what each kernel computes. The vector kernels are at the end of the file (>>vectors) and
   are tested against the plain loops. A model chooses its set when it is loaded.

   A tile multiplies some rows of x by some panels of w and keeps its sums in registers. Where w is
   rows of floats (in_place, tfm_linear, keys of attention), a product is dot products of rows.

   The order of every sum depends on its length alone, so a row has the same result in any batch.
   Chapter 10 of the manual says which order. Every set has the bits of the plain loops, except
   those without a fused multiply-add (SSE2, WebAssembly), which round products first.
   ============================================================================================== */

enum {
    TFM__LANES = 16,     /* partial sums of a dot product of rows, or of weights */
    TFM__SUM_RUN = 1024, /* weights whose sum is in float, so that long sums stay accurate */
    TFM__PANEL = 16      /* rows of a panel of packed weights */
};

/* The arguments of a tile: rows of x by panels of w, over K columns. */
enum { TFM__MOST_ROWS = 32, TFM__MOST_PANELS = 4 };
typedef struct tfm__tile {
    const void *x; /* rows of floats or int8, TFM__X_STRIDE bytes apart */
    int64_t order; /* bytes from x to what split wrote about it */
    const unsigned char *w[TFM__MOST_PANELS];
    const unsigned char *ahead; /* the panels of the next tile, to prefetch */
    int64_t ahead_stride;       /* bytes from one of them to the next */
    int64_t K;
    int rows; /* of y to write: the tile's, or fewer at the edge, as tfm__tiling.least allows */
    float *y;
    int64_t y_stride;
    int begins;                       /* 1: sums start at zero; 0: at y */
    const float *bias;                /* added at the end; NULL: none */
    const float *x_scales, *w_scales; /* of int8 */
    const int32_t *block_sums;        /* what the zero point adds to the sums of int8 */
} tfm__tile;

typedef struct tfm__tiling {
    int rows, least; /* the tile reads `rows` rows; `least` are enough to make it worth while */
    int panels;
    void (*run)(const tfm__tile *t);
    int configured; /* 1: runs only between configure(1) and configure(0) of the kernel set */
} tfm__tiling;

enum {
    TFM__X_BYTES = 2048,        /* bytes of a row of x that a tile reads at a time */
    TFM__X_STRIDE = 2112,       /* no power of two, so that rows do not evict each other */
    TFM__X_CHUNK = 96,          /* float rows per chunk */
    TFM__CONVERTED_CHUNK = 512, /* converted rows per chunk when w exceeds the cache */
    TFM__W_CHUNK = 512 << 10    /* bytes of w per chunk, which stay in the second-level cache */
};

enum { TFM__SIGMOID = TFM_ACTIVATION_COUNT }; /* after tfm_activation: for the gate of an SSRU */
enum { TFM__PAIRS = TFM_WEIGHT_TYPE_I8 + 1 }; /* after tfm_weight_type: BF16 times BF16 */
/* Weight types by the names of the kernels' tables. */
enum { TFM__TYPE_f32 = TFM_WEIGHT_TYPE_F32, TFM__TYPE_f16 = TFM_WEIGHT_TYPE_F16 };
enum { TFM__TYPE_bf16 = TFM_WEIGHT_TYPE_BF16, TFM__TYPE_pairs = TFM__PAIRS };

struct tfm__kernels {
    const char *name;
    /* by tfm_weight_type, each list from many rows to one; NULL: w is packed as F32 instead */
    const tfm__tiling *tiles[TFM_WEIGHT_TYPE_I8 + 1];
    int fused;      /* 1: multiply-adds round once, as in the plain loops; 0: twice */
    int zero_point; /* added to x when it becomes int8 */
    /* Writes which columns of x the tiles of int8 take in which order and way. x is a row of n
       int8, which zeros follow to a multiple of 32. NULL: the tiles read x alone. */
    void (*split)(const unsigned char *x, unsigned char *order, int64_t n);
    void (*configure)(int on); /* sets up and releases tile registers; NULL: it has none */
    /* converts x to the nearest bf16 for products with bf16; NULL: the tiles read floats */
    void (*narrow)(unsigned char *to, const float *x, int64_t n);
    /* sums[4 i + j] = x[i] . w[j], of n floats each */
    void (*dots_4x4)(const float *const *x, const float *const *w, int64_t n, float *sums);
    /* sums[i] = x . row i, of n rows of width floats, or F16 as if widened, stride elements
       apart */
    void (*dots)(float *sums, const float *x, const void *rows, int64_t stride, int64_t n,
                 int64_t width, int is_f16);
    /* y[j] += sum_i p[i] rows[i, j], of the same rows. A row whose p is zero is never read, because
       it is masked. Rows are added one by one, so two calls give the same bits as one. */
    void (*weighted_sum)(float *y, const float *p, const void *rows, int64_t stride, int64_t n,
                         int64_t width, int is_f16);
    /* y[i] = exp(x[i] - max), within 2 ULP; y may be x, or NULL. Returns their sum: in each run of
       TFM__SUM_RUN, element i is added in lane i mod 16, and the runs are added in double. */
    double (*exp_sum)(float *y, const float *x, float max, int64_t n);
    /* the largest of n numbers, or of their absolute values; NaN is ignored; -inf or 0 if n is 0 */
    float (*largest)(const float *x, int64_t n);
    float (*absmax)(const float *x, int64_t n);
    void (*scale)(float *x, float factor, int64_t n);
    void (*add)(float *x, const float *y, int64_t n);   /* x += y: the residual connection */
    void (*times)(float *x, const float *y, int64_t n); /* x *= y: a gate */
    /* q[i] = x[i] * factor + bias, rounded to even; q has room for 63 bytes more */
    void (*quantize)(unsigned char *q, const float *x, float factor, int bias, int64_t n);
    void (*activate)(float *x, int64_t n, tfm_activation activation);
    /* normalizes rows of n numbers; y may be x */
    void (*norm)(float *y, int64_t y_stride, const float *x, int64_t x_stride, int64_t rows,
                 int64_t n, const tfm_norm_weights *w);
    /* Converts to the nearest F16. Larger numbers become the largest, +-65504. */
    void (*narrow_f16)(uint16_t *to, const float *x, int64_t n);
};

#if defined(__GNUC__) && !defined(__TINYC__)
/* Inlined into callers that know the constants, so that loops over registers unroll. */
#define TFM__INLINE inline __attribute__((always_inline))
#define TFM__PREFETCH(address) __builtin_prefetch(address)
#else
#define TFM__INLINE inline
#define TFM__PREFETCH(address) ((void)(address))
#endif
#if defined(__clang__)
/* A plain "unroll" may stop halfway, and then sums stay in memory. */
#define TFM__UNROLL _Pragma("clang loop unroll(full)")
#if __has_feature(memory_sanitizer)
#define TFM__UNSEEN_STORES /* it misses that a stored tile register writes memory */
#endif
#elif defined(__GNUC__) && __GNUC__ >= 8
#define TFM__UNROLL _Pragma("GCC unroll 24")
#else
#define TFM__UNROLL
#endif
#if defined(__GNUC__) && !defined(__TINYC__) && !defined(TRANSFORMER_NO_SIMD)
/* Lanes i, j, k and l of the eight lanes of a and b. */
#if defined(__clang__) || __GNUC__ >= 12
#define TFM__FOUR_LANES(a, b, i, j, k, l) __builtin_shufflevector(a, b, i, j, k, l)
#else
typedef int32_t tfm__four __attribute__((vector_size(16)));
#define TFM__FOUR_LANES(a, b, i, j, k, l)                                                          \
    __builtin_shuffle(a, b, __extension__(tfm__four){i, j, k, l})
#endif
#if defined(__x86_64__)
#define TFM__X86
#elif defined(__aarch64__) && defined(__ARM_NEON) && __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
#define TFM__NEON
#elif defined(__wasm_simd128__)
#define TFM__WASM
#endif
#endif

#ifdef TFM__X86
/* These need a compiler whose assembler knows them; Linux grants tile registers (AMX) on
   request. */
#if defined(__clang__) ? __clang_major__ >= 12 : __GNUC__ >= 11
#define TFM__BF16
#define TFM__AVX_VNNI
#ifdef TFM__SYSTEM_CALLS
#define TFM__AMX
#endif
#endif
/* X_ROWS: the most rows of x in a tile of floats, which a product copies to its stack. */
enum { TFM__TALL = 24, TFM__X_ROWS = TFM__TALL };
/* clang-format off */
enum { TFM__CPU_AVX2 = 1, TFM__CPU_AVX512 = 2, TFM__CPU_VNNI = 4, TFM__CPU_AVX_VNNI = 8,
       TFM__CPU_BF16 = 16, TFM__CPU_AMX = 32, TFM__CPU_INTEL = 64, TFM__CPU_AMD = 128 };
/* clang-format on */
static int tfm__cpu_has(int feature);
static int tfm__cpu_is_intel(void) { return tfm__cpu_has(TFM__CPU_INTEL); }
/* Intels with AVX512-BF16 have 2 MB of second-level cache. */
static int tfm__cpu_has_large_cache(void) {
    return tfm__cpu_is_intel() && tfm__cpu_has(TFM__CPU_BF16);
}
#else
enum { TFM__TALL = 24, TFM__X_ROWS = 12 };
static int tfm__cpu_is_intel(void) { return 0; }
static int tfm__cpu_has_large_cache(void) { return 0; }
#endif

/* ---- arithmetic: the same bits on every machine ----
   The four operations and square roots of IEEE 754 give the same bits everywhere. A fused
   multiply-add rounds once, and compilers may make one only where it is written (>>base). The
   functions of libm differ from system to system, so exp, erf, log, pow and sine are ours. */

/* Returns a * b + c, rounded once. */
#if defined(__FP_FAST_FMAF)
static TFM__INLINE float tfm__fma(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
#else
/* In double the product is exact. The sum is rounded to odd: of its two neighbours the one whose
   last bit is 1. Rounding that to float gives what rounding the exact sum would give, because a
   double has more than two bits more (Boldo and Melquiond, 2008). */
static TFM__INLINE float tfm__fma(float a, float b, float c) {
    double product = (double)a * (double)b, sum = product + (double)c, from = sum - product;
    double error = (product - (sum - from)) + ((double)c - from); /* NaN if sum is no number */
    if (error > 0 || error < 0) {
        uint64_t bits;
        memcpy(&bits, &sum, sizeof bits);
        if (!(bits & 1)) bits = (error > 0) == (sum > 0) ? bits + 1 : bits - 1;
        memcpy(&sum, &bits, sizeof bits);
    }
    return (float)sum;
}
#endif

/* Returns 2^m for an integer m from -126 to 127. */
static float tfm__exp2_of(float m) { return tfm__float_from_bits((uint32_t)((int)m + 127) << 23); }

/* exp(x) = 2^m exp(r), r = x - m ln 2 in two steps, |r| <= ln(2)/2; exp(r) = 1 + r + r^2 q(r), q
   the Chebyshev interpolation of degree 4. Past +-104 all floats are 0 or infinity. 2^m is two
   factors, which are normal numbers. */
static const float tfm__exp_q[] = {1.0f,          1.0f,           0.5f,          0.166665767f,
                                   0.0416665542f, 0.00836323288f, 0.00139262508f};
static float tfm__exp_of(float x) {
    float m, r, q = tfm__exp_q[6], half;
    int i;
    if (x != x) return x;
    x = x > 104.0f ? 104.0f : x < -104.0f ? -104.0f : x;
    m = rintf(x * 1.44269504f), half = rintf(m * 0.5f);
    r = tfm__fma(m, -0.693359375f, x);
    r = tfm__fma(m, 2.12194440e-4f, r);
    for (i = 5; i >= 0; i--) q = tfm__fma(q, r, tfm__exp_q[i]);
    return q * tfm__exp2_of(half) * tfm__exp2_of(m - half);
}

/* erf(x): below 0.9 x + x p(x^2), above 1 - exp(q(|x|)), from 4 on 1. p and q are minimax fits. */
static const float tfm__erf_p[] = {0.128379166f,   -0.376126349f,    0.112837151f,   -0.0268605091f,
                                   0.00520385895f, -0.000817563909f, 8.51310251e-05f};
static const float tfm__erf_q[] = {0.000150613705f, -1.12938178f,     -0.633663297f,
                                   -0.107858211f,   0.0247745123f,    -0.00399410119f,
                                   0.000378849654f, -1.13113474e-05f, -7.3745656e-07f};
static float tfm__erf_of(float x) {
    float square = x * x, size = 0.0f - x > x ? 0.0f - x : x, p = tfm__erf_p[6], q = tfm__erf_q[8];
    int i;
    size = 4.0f < size ? 4.0f : size;
    for (i = 5; i >= 0; i--) p = tfm__fma(p, square, tfm__erf_p[i]);
    for (i = 7; i >= 0; i--) q = tfm__fma(q, size, tfm__erf_q[i]);
    q = 1.0f - tfm__exp_of(q);
    return size < 0.9f ? tfm__fma(p, x, x) : x < 0.0f ? 0.0f - q : q;
}

/* Returns x / (1 + exp(-z)). */
static float tfm__gate(float x, float z) { return x / (1.0f + tfm__exp_of(0.0f - z)); }

/* Returns c[0] + c[step] x + ..., n terms. */
static double tfm__series(const double *c, int step, int n, double x) {
    double sum = c[(n - 1) * step];
    for (n -= 2; n >= 0; n--) sum = sum * x + c[n * step];
    return sum;
}

/* 1 / k!, the Taylor series of exp; those of sin and cos have every second one. */
/* clang-format off */
static const double tfm__taylor[] = {
    1.0, 1.0, 1.0 / 2, 1.0 / 6, 1.0 / 24, 1.0 / 120, 1.0 / 720, 1.0 / 5040, 1.0 / 40320,
    1.0 / 362880, 1.0 / 3628800, 1.0 / 39916800, 1.0 / 479001600, 1.0 / 6227020800,
    1.0 / 87178291200, 1.0 / 1307674368000, 1.0 / 20922789888000};
/* clang-format on */

/* ln 2 in two parts; the product of the first with an exponent is exact. */
#define TFM__LN2_HIGH 0.693147180369123816490
#define TFM__LN2_LOW 1.90821492927058770002e-10

/* exp(x) = 2^m exp(r) as above. */
static double tfm__exp(double x) {
    double m;
    if (!(x > -746 && x < 710)) return x > 0 ? (double)INFINITY : x < 0 ? 0.0 : x;
    m = floor(x * 1.4426950408889634 + 0.5);
    x = (x - m * TFM__LN2_HIGH) - m * TFM__LN2_LOW;
    return ldexp(tfm__series(tfm__taylor, 1, 14, x), (int)m);
}

/* log(x) = e ln 2 + log(m), x = m 2^e, m from sqrt(1/2) to sqrt(2); log(m) = 2 artanh(s), where
   s = (m - 1) / (m + 1), by the Taylor series. */
static double tfm__log(double x) {
    static const double c[] = {2.0,      2.0 / 3,  2.0 / 5,  2.0 / 7,  2.0 / 9, 2.0 / 11,
                               2.0 / 13, 2.0 / 15, 2.0 / 17, 2.0 / 19, 2.0 / 21};
    double m, s;
    int e;
    if (!(x > 0 && x < (double)INFINITY)) return x > 0 ? x : x == 0 ? -(double)INFINITY : NAN;
    m = frexp(x, &e);
    if (m < 0.70710678118654752) m *= 2, e--;
    s = (m - 1) / (m + 1);
    s *= tfm__series(c, 1, 11, s * s);
    return e * TFM__LN2_HIGH + (e * TFM__LN2_LOW + s);
}

/* Returns x^y for x > 0. */
static double tfm__pow(double x, double y) { return y == 1 ? x : tfm__exp(y * tfm__log(x)); }

/* Returns sin(x + quarters * pi/2) by the series of the nearest quarter of a turn. */
static double tfm__sine(double x, int quarters) {
    double k = floor(x * 0.63661977236758134 + 0.5), square, y;
    /* pi/2 in three parts; the product with the first is exact up to 2^20 quarters */
    x = ((x - k * 1.57079632673412561417) - k * 6.07710050630396597660e-11) -
        k * 2.02226624879595063154e-21;
    square = -(x * x); /* so that the signs of the terms alternate */
    quarters = (quarters + (int)(k - 4 * floor(k / 4))) & 3;
    y = quarters & 1 ? tfm__series(tfm__taylor, 2, 9, square)
                     : x * tfm__series(tfm__taylor + 1, 2, 8, square);
    return quarters & 2 ? -y : y;
}

/* ---- plain loops ---- */

/* Adds the upper half of the lanes to the lower until one is left, as a vector unit does. */
static TFM__INLINE float tfm__sum_lanes(const float *a) {
    float even = ((a[0] + a[8]) + (a[4] + a[12])) + ((a[2] + a[10]) + (a[6] + a[14]));
    float odd = ((a[1] + a[9]) + (a[5] + a[13])) + ((a[3] + a[11]) + (a[7] + a[15]));
    return even + odd;
}

static TFM__INLINE float tfm__row_element(const void *row, int64_t i, int is_f16) {
    return is_f16 ? tfm__float_from_half(((const uint16_t *)row)[i]) : ((const float *)row)[i];
}

/* In these loops is_f16 is a constant where they are inlined. */
static TFM__INLINE void tfm__plain_row_dots(float *sums, const float *x, const void *rows,
                                            int64_t stride, int64_t n, int64_t width, int is_f16) {
    int64_t i, k;
    int l;
    for (i = 0; i < n; i++) {
        const char *row = (const char *)rows + i * stride * (is_f16 ? 2 : 4);
        float acc[TFM__LANES] = {0};
        for (k = 0; k + TFM__LANES <= width; k += TFM__LANES)
            for (l = 0; l < TFM__LANES; l++)
                acc[l] = tfm__fma(x[k + l], tfm__row_element(row, k + l, is_f16), acc[l]);
        for (l = 0; k < width; k++, l++)
            acc[l] = tfm__fma(x[k], tfm__row_element(row, k, is_f16), acc[l]);
        sums[i] = tfm__sum_lanes(acc);
    }
}
static void tfm__plain_dots(float *sums, const float *x, const void *rows, int64_t stride,
                            int64_t n, int64_t width, int is_f16) {
    if (is_f16) tfm__plain_row_dots(sums, x, rows, stride, n, width, 1);
    else tfm__plain_row_dots(sums, x, rows, stride, n, width, 0);
}
static void tfm__plain_dots_4x4(const float *const *x, const float *const *w, int64_t n,
                                float *sums) {
    int i;
    for (i = 0; i < 16; i++) tfm__plain_dots(sums + i, x[i / 4], w[i % 4], 0, 1, n, 0);
}

static TFM__INLINE void tfm__plain_weighted(float *y, const float *p, const void *rows,
                                            int64_t stride, int64_t n, int64_t width, int is_f16) {
    int64_t i, j, l, lanes;
    for (j = 0; j < width; j += lanes) {
        float acc[TFM__LANES];
        lanes = tfm__min(TFM__LANES, width - j);
        memcpy(acc, y + j, (size_t)lanes * sizeof *acc);
        for (i = 0; i < n; i++) {
            const char *row = (const char *)rows + (i * stride + j) * (is_f16 ? 2 : 4);
            for (l = 0; p[i] != 0.0f && l < lanes; l++)
                acc[l] = tfm__fma(p[i], tfm__row_element(row, l, is_f16), acc[l]);
        }
        memcpy(y + j, acc, (size_t)lanes * sizeof *acc);
    }
}
static void tfm__plain_weighted_sum(float *y, const float *p, const void *rows, int64_t stride,
                                    int64_t n, int64_t width, int is_f16) {
    if (is_f16) tfm__plain_weighted(y, p, rows, stride, n, width, 1);
    else tfm__plain_weighted(y, p, rows, stride, n, width, 0);
}

static void tfm__plain_narrow_f16(uint16_t *to, const float *x, int64_t n) {
    int64_t i;
    for (i = 0; i < n; i++) {
        float v = x[i] > 65504.0f ? 65504.0f : x[i] < -65504.0f ? -65504.0f : x[i];
        to[i] = (uint16_t)tfm__half_from_float(v);
    }
}

static double tfm__plain_exp_sum(float *y, const float *x, float max, int64_t n) {
    double sum = 0;
    int64_t i, end;
    for (i = 0; i < n;) {
        float acc[TFM__LANES] = {0};
        for (end = tfm__min(n, i + TFM__SUM_RUN); i < end; i++) {
            float e = tfm__exp_of(x[i] - max);
            acc[i % TFM__LANES] += e;
            if (y) y[i] = e;
        }
        sum += (double)tfm__sum_lanes(acc);
    }
    return sum;
}

static float tfm__plain_largest(const float *x, int64_t n) {
    float max = -INFINITY;
    int64_t i;
    for (i = 0; i < n; i++)
        if (x[i] > max) max = x[i]; /* false for NaN */
    return max;
}

static float tfm__plain_absmax(const float *x, int64_t n) {
    float max = 0;
    int64_t i;
    for (i = 0; i < n; i++)
        if (fabsf(x[i]) > max) max = fabsf(x[i]);
    return max;
}

/* Operations x[i] = x[i] op y: name, y, its element i, its vector from i on, operator. */
#define TFM__ELEMENTWISE_TABLE(X)                                                                  \
    X(scale, float y, y, SET(y), *)                                                                \
    X(add, const float *y, y[i], LOAD(y + i), +)                                                   \
    X(times, const float *y, y[i], LOAD(y + i), *)

#define TFM_X(name, operand, number, vector, op)                                                   \
    static void tfm__plain_##name(float *x, operand, int64_t n) {                                  \
        int64_t i;                                                                                 \
        for (i = 0; i < n; i++) x[i] = x[i] op number;                                             \
    }
TFM__ELEMENTWISE_TABLE(TFM_X)
#undef TFM_X

static void tfm__plain_quantize(unsigned char *q, const float *x, float factor, int bias,
                                int64_t n) {
    int64_t i;
    for (i = 0; i < n; i++) {
        float v = rintf(x[i] * factor);
        v = v > 127 ? 127 : v > -127 ? v : -127; /* NaN becomes -127 */
        q[i] = (unsigned char)((int)v + bias);
    }
}

/* ---- plain tiles ---- */

/* Returns column k of row l of a panel as a float. */
static TFM__INLINE float tfm__float_at(const unsigned char *w, tfm_weight_type type, int64_t k,
                                       int l) {
    const uint16_t *halves = (const uint16_t *)(const void *)w;
    int64_t at = k * TFM__PANEL + l;
    if (type == TFM_WEIGHT_TYPE_F32) return ((const float *)(const void *)w)[at];
    if (type == TFM_WEIGHT_TYPE_F16) return tfm__float_from_half(halves[at]);
    return tfm__float_from_bits((uint32_t)halves[(k / 2 * TFM__PANEL + l) * 2 + k % 2] << 16);
}

/* Computes y = (y or 0) + x w^T + bias for floats. */
static TFM__INLINE void tfm__plain_tile(const tfm__tile *t, tfm_weight_type type, int rows,
                                        int panels) {
    int r, p, l;
    for (r = 0; r < rows; r++)
        for (p = 0; p < panels; p++) {
            const float *x = (const float *)t->x + r * (TFM__X_STRIDE / 4);
            float *y = t->y + r * t->y_stride + p * TFM__PANEL, sum[TFM__PANEL];
            int64_t k;
            for (l = 0; l < TFM__PANEL; l++) sum[l] = t->begins ? 0.0f : y[l];
            for (k = 0; k < t->K; k++)
                for (l = 0; l < TFM__PANEL; l++)
                    sum[l] = tfm__fma(x[k], tfm__float_at(t->w[p], type, k, l), sum[l]);
            for (l = 0; l < TFM__PANEL; l++)
                y[l] = t->bias ? sum[l] + t->bias[p * TFM__PANEL + l] : sum[l];
        }
}

/* Computes the same for int8, four columns side by side. y is the exact sum times both scales. */
static TFM__INLINE void tfm__plain_tile_int8(const tfm__tile *t, int rows, int panels) {
    int r, p, l;
    for (r = 0; r < rows; r++)
        for (p = 0; p < panels; p++) {
            const signed char *x = (const signed char *)t->x + r * TFM__X_STRIDE, *x_end = x + t->K;
            const signed char *w = (const signed char *)t->w[p];
            float *y = t->y + r * t->y_stride + p * TFM__PANEL;
            int32_t sum[TFM__PANEL] = {0};
            for (; x < x_end; x += 4, w += 4 * TFM__PANEL)
                for (l = 0; l < TFM__PANEL; l++)
                    sum[l] += x[0] * w[4 * l] + x[1] * w[4 * l + 1] + x[2] * w[4 * l + 2] +
                              x[3] * w[4 * l + 3];
            for (l = 0; l < TFM__PANEL; l++) {
                float v = (float)sum[l] * (t->x_scales[r] * t->w_scales[p * TFM__PANEL + l]);
                if (!t->begins) v = y[l] + v;
                y[l] = t->bias ? v + t->bias[p * TFM__PANEL + l] : v;
            }
        }
}

static void tfm__plain_tile_f32_1(const tfm__tile *t) {
    tfm__plain_tile(t, TFM_WEIGHT_TYPE_F32, 1, 1);
}
static void tfm__plain_tile_int8_1(const tfm__tile *t) { tfm__plain_tile_int8(t, 1, 1); }
static const tfm__tiling tfm__plain_f32[] = {{1, 1, 1, tfm__plain_tile_f32_1, 0}};
static const tfm__tiling tfm__plain_int8[] = {{1, 1, 1, tfm__plain_tile_int8_1, 0}};

/* ---- norm, activations ---- */

static double tfm__norm_default_eps(tfm_norm_kind kind) {
    return kind == TFM_NORM_KIND_LAYER_NORM ? 1e-5 : 1e-6;
}

/* Returns the factor for the deviations from the mean, whose squares have the sum square. */
static double tfm__norm_scale(double square, int64_t n, const tfm_norm_weights *w) {
    double eps = w->eps != 0 ? w->eps : tfm__norm_default_eps(w->kind);
    if (w->kind == TFM_NORM_KIND_LAYER_NORM_UNBIASED)
        return 1 / (sqrt(square / (double)(n - 1)) + eps);
    return 1 / sqrt(square / (double)n + eps);
}

/* The sums of a norm: number i is added in float to lane i mod 8, and after each RUN numbers the
   lanes are added in double. Squares that do not fill the lanes are added in double before them. */
enum { TFM__SUMS = 8, TFM__RUN = 64 * TFM__SUMS };
static double tfm__sum_of_lanes(const float *lanes) {
    double sum = 0;
    int l;
    for (l = 0; l < TFM__SUMS; l++) sum += (double)lanes[l];
    return sum;
}

static void tfm__plain_norm(float *y, int64_t y_stride, const float *x, int64_t x_stride,
                            int64_t rows, int64_t n, const tfm_norm_weights *w) {
    const float *weight = (const float *)w->weight.data, *bias = (const float *)w->bias.data;
    for (; rows > 0; rows--, x += x_stride, y += y_stride) {
        double sum = 0, square = 0;
        float mean, scale;
        int64_t i, k, end;
        for (i = w->kind == TFM_NORM_KIND_RMS_NORM ? n : 0; i < n; i = end) {
            float lanes[TFM__SUMS] = {0};
            end = tfm__min(n, i + TFM__RUN);
            for (k = i; k < end; k++) lanes[k % TFM__SUMS] += x[k];
            sum += tfm__sum_of_lanes(lanes);
        }
        mean = (float)(sum / (double)n);
        for (i = 0; i < n; i = end) {
            float lanes[TFM__SUMS] = {0};
            int64_t whole;
            end = tfm__min(n, i + TFM__RUN), whole = i + (end - i) / TFM__SUMS * TFM__SUMS;
            for (k = i; k < whole; k++) {
                float d = x[k] - mean;
                lanes[k % TFM__SUMS] = tfm__fma(d, d, lanes[k % TFM__SUMS]);
            }
            for (; k < end; k++) {
                double d = (double)x[k] - sum / (double)n;
                square += d * d;
            }
            square += tfm__sum_of_lanes(lanes);
        }
        scale = (float)tfm__norm_scale(square, n, w);
        for (i = 0; i < n; i++) {
            float v = (x[i] - mean) * scale;
            if (weight) v *= weight[i];
            if (bias) v += bias[i];
            y[i] = v;
        }
    }
}

/* activation: tfm_activation or TFM__SIGMOID. .github/CONTRIBUTING.md shows how to add one. */
static float tfm__activation_of(int activation, float x) {
    switch (activation) {
    case TFM_ACTIVATION_RELU: return x < 0.0f ? 0.0f : x;
    case TFM_ACTIVATION_GELU: return 0.5f * x * (1.0f + tfm__erf_of(x * 0.70710678f));
    case TFM_ACTIVATION_GELU_TANH: /* 0.79788456 = sqrt(2 / pi) */
        return tfm__gate(x, 1.59576912f * tfm__fma(0.044715f, x * x * x, x));
    case TFM_ACTIVATION_SWISH: return tfm__gate(x, x);
    case TFM_ACTIVATION_GELU_SIGMOID: return tfm__gate(x, 1.702f * x);
    default: return tfm__gate(1.0f, x); /* TFM__SIGMOID */
    }
}

/* Applies an activation in place. NaN stays NaN. */
static void tfm__plain_activate(float *y, int64_t n, tfm_activation activation) {
    int64_t i;
    for (i = 0; i < n; i++) y[i] = tfm__activation_of((int)activation, y[i]);
}

/* Returns kernel set i, from the plainest to the fastest, or NULL if machine or build lack it. */
enum { TFM__KERNEL_SETS = 7 };
static const tfm__kernels *tfm__kernel_set(int i);

/* Returns the fastest set that exists and TRANSFORMER_KERNELS allows; exact: with plain bits. */
static const tfm__kernels *tfm__kernel_choose(int exact) {
    int i = TRANSFORMER_KERNELS < TFM__KERNEL_SETS - 1 ? TRANSFORMER_KERNELS : TFM__KERNEL_SETS - 1;
    for (;; i--) {
        const tfm__kernels *k = tfm__kernel_set(i);
        if (k && (!exact || (k->fused && !k->narrow))) return k;
    }
}
static const tfm__kernels *tfm__kernel_best(void) { return tfm__kernel_choose(0); }

TFM_DEF const char *tfm_cpu_string(void) { return tfm__kernel_best()->name; }

/* >>packed ========================================================================================
   15. PACKED WEIGHTS AND PRODUCTS
   This section alone knows the layout of packed weights, besides the tiles that read them.

   A packed matrix [rows, columns] is a sequence of panels of 16 rows. In a panel, each group of
   k_group columns has the elements of all 16 rows side by side: [panel][group][16][k_group]. One
   loaded vector of w is multiplied with several rows of x, whose sums stay in registers. Zeros fill
   the last group of columns and the last panel. Where panels replace the rows of a file in place,
   the last panel does not fit there and has memory of its own (tail).

   int8: w = q * scale[row]. Weights are symmetric with one scale per output channel; activations
   are quantized with one scale per token, or with the one that the file states for all inputs of
   the matrix, beyond which they are clipped; sums are int32. Scales are padded to whole panels plus
   the panels that a tile may read after them. Kernels that multiply u8 by s8 add a zero point of
   128 to x. The tile subtracts what this adds to a sum, the block sums: 128 times the sum of q, for
   each row and block of TFM__X_BYTES columns. Packed files store them for zero point 128.

   A matrix of a model is packed, or rows of floats, for in_place or BLAS, or as stored in the file
   (rows or panels), if rows are only looked up.
   ============================================================================================== */

/* Returns the factor that makes a row int8, and the scale that reverses it. */
static float tfm__int8_factor(const tfm__kernels *kernels, const float *x, int64_t n,
                              float *scale) {
    float absmax = kernels->absmax(x, n);
    *scale = absmax / 127.0f;
    return absmax > 0 ? 127.0f / absmax : 0.0f;
}

/* The element types by tfm_weight_type. A new type needs a row here, cases in tfm__widen and
   tfm__narrow or a quantization, and tiles in some kernel set. Types of 16 bits are for
   little-endian machines, because others have no tiles for them. */
enum { TFM__TYPES = TFM_WEIGHT_TYPE_I8 + 1 };
static const struct tfm__type {
    const char *name;
    tfm_dtype dtype;
    int k_group; /* columns that lie side by side */
} tfm__types[TFM__TYPES] = {
    {"none", TFM_DTYPE_F32, 0}, /* TFM_WEIGHT_TYPE_AS_STORED: not packed */
    {"f32", TFM_DTYPE_F32, 1},   {"f16", TFM_DTYPE_F16, 1},
    {"bf16", TFM_DTYPE_BF16, 2}, {"int8", TFM_DTYPE_I8, 4},
};

/* Returns the bytes of n elements, which are whole bytes. */
static int64_t tfm__dtype_bytes(tfm_dtype dtype, int64_t n) {
    return n * tfm__dtypes[dtype].bits / 8;
}

/* A matrix [rows, columns] of a model. */
typedef struct tfm__matrix {
    int64_t rows, columns;
    tfm_weight_type type; /* of packed weights; TFM_WEIGHT_TYPE_AS_STORED: not packed */
    tfm_dtype dtype;      /* of weights as stored */
    int k_group;          /* of panels as stored; 0: rows */
    unsigned char *data;  /* packed, or as stored (little-endian, any alignment) */
    unsigned char *tail;  /* the last panel; NULL: it follows the others */
    const float *floats;  /* rows of floats, stride apart; NULL: another form */
    int64_t stride;
    float *scales; /* of int8; packed: [padded rows] */
    int32_t *block_sums;
    float input_factor; /* makes x int8, in every row alike; 0: each row of x has its own */
} tfm__matrix;

/* A linear map: x w^T + bias. */
typedef struct tfm__linear {
    tfm__matrix w;
    const float *bias;        /* [w.rows]; NULL: none */
    struct tfm__linear *next; /* in the loader's list of maps to pack */
} tfm__linear;

/* ---- sizes ---- */

static int64_t tfm__packed_panels(int64_t rows) { return tfm__blocks(rows, TFM__PANEL); }
static int64_t tfm__packed_blocks(int64_t columns) { return tfm__blocks(columns, TFM__X_BYTES); }
static int64_t tfm__packed_groups(tfm_weight_type type, int64_t columns) {
    return tfm__blocks(columns, tfm__types[type].k_group);
}
/* Returns the bytes of a group of columns of one row. */
static int64_t tfm__packed_group_bytes(tfm_weight_type type) {
    return tfm__dtype_bytes(tfm__types[type].dtype, tfm__types[type].k_group);
}
static int64_t tfm__packed_panel_bytes(tfm_weight_type type, int64_t columns) {
    return TFM__PANEL * tfm__packed_groups(type, columns) * tfm__packed_group_bytes(type);
}
static int64_t tfm__packed_bytes(tfm_weight_type type, int64_t rows, int64_t columns) {
    return tfm__packed_panels(rows) * tfm__packed_panel_bytes(type, columns);
}

/* Returns the length of scales, and of the block sums of a block. */
static int64_t tfm__packed_padded_rows(int64_t rows) {
    return (tfm__packed_panels(rows) + TFM__MOST_PANELS) * TFM__PANEL;
}

/* Returns the floats of scratch of tfm__packed_make: 16 rows of elements and one of floats. */
static int64_t tfm__packed_scratch(int64_t columns) {
    return (TFM__PANEL + 1) * columns + TFM__PANEL;
}

/* ---- panels ---- */

/* Returns panel i of panels of so many bytes. */
static unsigned char *tfm__packed_panel_at(const tfm__matrix *w, int64_t i, int64_t bytes) {
    return w->tail && i == w->rows / TFM__PANEL ? w->tail : w->data + i * bytes;
}

/* Returns panel i from column k on, which is a multiple of the group. */
static unsigned char *tfm__packed_panel(const tfm__matrix *w, int64_t i, int64_t k) {
    return tfm__packed_panel_at(w, i, tfm__packed_panel_bytes(w->type, w->columns)) +
           tfm__dtype_bytes(tfm__types[w->type].dtype, k * TFM__PANEL);
}

#ifdef TFM__FOUR_LANES
/* Interleaves four groups of 4 bytes of each of four rows. In a row, groups follow each other. */
static TFM__INLINE void tfm__packed_interleave_4x4(unsigned char *to,
                                                   const unsigned char *const *rows, int64_t at) {
    typedef uint32_t four __attribute__((vector_size(16)));
    four a, b, c, d, low, high;
    memcpy(&a, rows[0] + at, 16);
    memcpy(&b, rows[1] + at, 16);
    memcpy(&c, rows[2] + at, 16);
    memcpy(&d, rows[3] + at, 16);
    low = TFM__FOUR_LANES(a, b, 0, 4, 1, 5), a = TFM__FOUR_LANES(a, b, 2, 6, 3, 7);
    high = TFM__FOUR_LANES(c, d, 0, 4, 1, 5), c = TFM__FOUR_LANES(c, d, 2, 6, 3, 7);
    b = TFM__FOUR_LANES(low, high, 0, 1, 4, 5);
    d = TFM__FOUR_LANES(low, high, 2, 3, 6, 7);
    low = TFM__FOUR_LANES(a, c, 0, 1, 4, 5);
    high = TFM__FOUR_LANES(a, c, 2, 3, 6, 7);
    memcpy(to, &b, 16);
    memcpy(to + 4 * TFM__PANEL, &d, 16);
    memcpy(to + 8 * TFM__PANEL, &low, 16);
    memcpy(to + 12 * TFM__PANEL, &high, 16);
}
#endif

/* Interleaves some groups of 2 or 4 bytes of n rows, from g on. Groups of a row are step apart. */
static TFM__INLINE void tfm__packed_interleave_some(unsigned char *panel,
                                                    const unsigned char *const *rows, int n,
                                                    int64_t g, int some, int64_t bytes,
                                                    int64_t step) {
    int r, i;
    for (r = 0; r < n; r++) {
        const unsigned char *from = rows[r] + g * step;
        unsigned char *to = panel + (g * TFM__PANEL + r) * bytes;
        TFM__UNROLL
        for (i = 0; i < some; i++, from += step, to += TFM__PANEL * bytes)
            if (bytes == 4) memcpy(to, from, 4);
            else memcpy(to, from, 2);
    }
}

/* Interleaves all groups of n rows. Four groups of a row share one address computation. */
static void tfm__packed_interleave(unsigned char *panel, const unsigned char *const *rows, int n,
                                   int64_t groups, int64_t bytes, int64_t step) {
    int64_t g = 0;
#ifdef TFM__FOUR_LANES
    int r;
    for (; bytes == 4 && step == 4 && n == TFM__PANEL && g < groups - 3; g += 4)
        for (r = 0; r < TFM__PANEL; r += 4)
            tfm__packed_interleave_4x4(panel + 4 * (g * TFM__PANEL + r), rows + r, 4 * g);
#endif
    for (; g < groups - 3; g += 4)
        if (bytes == 4) tfm__packed_interleave_some(panel, rows, n, g, 4, 4, step);
        else tfm__packed_interleave_some(panel, rows, n, g, 4, 2, step);
    for (; g < groups; g++) tfm__packed_interleave_some(panel, rows, n, g, 1, bytes, step);
}

/* Writes panel i from rows whose groups are step bytes apart. Zeros stand in for missing rows. */
static void tfm__packed_set_panel(const tfm__matrix *w, int64_t i, const unsigned char *const *rows,
                                  int64_t step) {
    int n = (int)tfm__min(TFM__PANEL, w->rows - i * TFM__PANEL);
    unsigned char *panel = tfm__packed_panel(w, i, 0);
    if (n < TFM__PANEL) memset(panel, 0, (size_t)tfm__packed_panel_bytes(w->type, w->columns));
    tfm__packed_interleave(panel, rows, n, tfm__packed_groups(w->type, w->columns),
                           tfm__packed_group_bytes(w->type), step);
}

/* Returns the weight type with elements of this dtype. */
static tfm_weight_type tfm__type_of_dtype(tfm_dtype dtype) {
    int type = TFM_WEIGHT_TYPE_F32;
    while (type < TFM_WEIGHT_TYPE_I8 && tfm__types[type].dtype != dtype) type++;
    return (tfm_weight_type)type;
}

/* Reads row i as floats, whatever form the matrix has. */
static void tfm__matrix_read_row(const tfm__matrix *w, int64_t i, float *row) {
    tfm_dtype dtype = w->type ? tfm__types[w->type].dtype : w->dtype;
    int64_t k_group = w->type ? tfm__types[w->type].k_group : w->k_group, k, n, g;
    if (w->floats) memcpy(row, w->floats + i * w->stride, (size_t)w->columns * sizeof *row);
    else if (!k_group)
        tfm__widen(row, w->data + tfm__dtype_bytes(dtype, i * w->columns), dtype, w->columns);
    else {
        unsigned char some[256]; /* elements of this row alone */
        int64_t bytes = tfm__dtype_bytes(dtype, k_group);
        int64_t panel_bytes = TFM__PANEL * bytes * tfm__blocks(w->columns, k_group);
        const unsigned char *from = tfm__packed_panel_at(w, i / TFM__PANEL, panel_bytes) +
                                    i % TFM__PANEL * bytes;
        for (k = 0; k < w->columns; k += n) { /* whole groups, except at the end */
            n = tfm__min(256 / tfm__dtype_bytes(dtype, 1), w->columns - k);
            for (g = 0; g < tfm__blocks(n, k_group); g++, from += TFM__PANEL * bytes)
                memcpy(some + g * bytes, from, (size_t)bytes);
            if (w->type == TFM_WEIGHT_TYPE_F32) memcpy(row + k, some, (size_t)n * sizeof *row);
            else tfm__widen(row + k, some, dtype, n);
        }
    }
    if (w->scales)
        for (k = 0; k < w->columns; k++) row[k] *= w->scales[i];
}

/* Packs keys of attention [n, columns], times scale, as F32 or BF16. They are stride floats apart.
   For BF16, scratch holds a row of floats and 16 rows of bf16, each in whole vectors. */
static void tfm__packed_set_keys(tfm__matrix *w, const float *keys, int64_t stride, float scale,
                                 const tfm__kernels *kernels, float *scratch) {
    const unsigned char *panel[TFM__PANEL];
    int64_t i, r;
    for (i = 0; i < w->rows; i += TFM__PANEL) {
        unsigned char *bf16 = (unsigned char *)(scratch + w->columns);
        for (r = 0; r < TFM__PANEL && i + r < w->rows; r++) {
            const float *row = keys + (i + r) * stride;
            panel[r] = (const unsigned char *)row;
            if (w->type == TFM_WEIGHT_TYPE_F32) continue;
            memcpy(scratch, row, (size_t)w->columns * sizeof *row);
            kernels->scale(scratch, scale, w->columns);
            kernels->narrow(bf16, scratch, w->columns);
            memset(bf16 + 2 * w->columns, 0, 2);
            panel[r] = bf16, bf16 += 2 * w->columns + 64;
        }
        tfm__packed_set_panel(w, i / TFM__PANEL, panel, 4);
    }
    if (w->type == TFM_WEIGHT_TYPE_F32)
        kernels->scale((float *)(void *)w->data, scale,
                       tfm__packed_bytes(w->type, w->rows, w->columns) / 4);
}

/* Packs values of attention [columns, rows]. They are summed row by row, so w is their transpose.
   BF16 has two positions side by side, and scratch then holds two rows of bf16 in whole vectors. */
static void tfm__packed_set_values(tfm__matrix *w, const float *values, int64_t stride,
                                   const tfm__kernels *kernels, float *scratch) {
    float *to = (float *)(void *)w->data;
    uint16_t *first = (uint16_t *)(void *)scratch, *second = first + w->rows + 32, *pairs;
    int64_t i, s;
    int l;
    for (i = 0; w->type == TFM_WEIGHT_TYPE_F32 && i < w->rows; i += TFM__PANEL)
        for (s = 0; s < w->columns; s++, to += TFM__PANEL) {
            size_t some = (size_t)tfm__min(TFM__PANEL, w->rows - i);
            if (some < TFM__PANEL) memset(to, 0, TFM__PANEL * sizeof *to);
            memcpy(to, values + s * stride + i, some * sizeof *to);
        }
    if (w->type == TFM_WEIGHT_TYPE_F32) return;
    memset(first, 0, (size_t)(2 * w->rows + 64) * sizeof *first);
    for (s = 0; s < w->columns; s += 2) {
        kernels->narrow((unsigned char *)first, values + s * stride, w->rows);
        if (s + 1 < w->columns)
            kernels->narrow((unsigned char *)second, values + (s + 1) * stride, w->rows);
        else memset(second, 0, (size_t)w->rows * sizeof *second);
        for (i = 0; i < w->rows; i += TFM__PANEL) {
            pairs = (uint16_t *)(void *)tfm__packed_panel(w, i / TFM__PANEL, s);
            for (l = 0; l < TFM__PANEL; l++)
                pairs[2 * l] = first[i + l], pairs[2 * l + 1] = second[i + l];
        }
    }
}

/* ---- packing a model's matrices ---- */

/* The loader's settings for packing matrices. */
typedef struct tfm__packer {
    const tfm__kernels *kernels;
    tfm_arena arena;         /* for packed weights; if it measures, nothing is packed */
    tfm_weight_type weights; /* wanted */
    int in_place;            /* F32 stays in rows */
    int owns_bytes;          /* panels may take the place of rows */
    int copies;              /* of the matrix that is packed: its elements stay as they are */
    void *scratch;           /* tfm__packed_scratch floats */
    tfm_error *err;
} tfm__packer;

/* Returns whether a file's bytes can be read as floats where they are. */
static int tfm__are_floats(const void *data, tfm_dtype dtype) {
    return dtype == TFM_DTYPE_F32 && (uintptr_t)data % sizeof(float) == 0 &&
           tfm__is_little_endian();
}

/* Makes rows of floats of a matrix. They stay in place if the file's bytes are floats here. */
static tfm_status tfm__matrix_set_rows(tfm__packer *p, tfm__matrix *w) {
    float *rows = (float *)(void *)w->data;
    int64_t i;
    if (w->k_group || !tfm__are_floats(w->data, w->dtype)) {
        TFM__TRY(TFM__TAKE(&p->arena, w->rows, w->columns, &rows, p->err));
        for (i = 0; rows && i < w->rows; i++) tfm__matrix_read_row(w, i, rows + i * w->columns);
    }
    w->floats = rows, w->stride = w->columns;
    w->scales = NULL, w->block_sums = NULL;
    return TFM_OK;
}

/* Computes the block sums of panel i by multiplying a row of zero points. The floats are exact,
   because they are multiples of 128 below 2^25. */
static void tfm__packed_set_block_sums(const tfm__kernels *kernels, const tfm__matrix *w,
                                       int64_t i) {
    enum { WIDTH = (int)TFM__MOST_PANELS * TFM__PANEL };
    const tfm__tiling *tiling = kernels->tiles[TFM_WEIGHT_TYPE_I8];
    unsigned char x[TFM__X_BYTES];
    int32_t none[WIDTH] = {0}, *sums = w->block_sums + i * TFM__PANEL;
    float y[WIDTH], ones[WIDTH];
    tfm__tile t;
    int64_t k;
    int j;
    memset(x, kernels->zero_point, sizeof x);
    for (j = 0; j < WIDTH; j++) ones[j] = 1.0f;
    memset(&t, 0, sizeof t);
    t.x = x, t.y = y, t.y_stride = WIDTH, t.rows = t.begins = 1;
    t.x_scales = t.w_scales = ones, t.block_sums = none;
    while (tiling->rows > 1) tiling++;
    for (k = 0; k < w->columns; k += TFM__X_BYTES, sums += tfm__packed_padded_rows(w->rows)) {
        t.K = tfm__min(TFM__X_BYTES, w->columns - k);
        for (j = 0; j < TFM__MOST_PANELS; j++) t.ahead = t.w[j] = tfm__packed_panel(w, i, k);
        tiling->run(&t);
        for (j = 0; j < TFM__PANEL; j++) sums[j] = (int32_t)y[j];
    }
}

/* Allocates zeroed scales and, if the kernels need them, block sums of int8. */
static tfm_status tfm__packed_alloc_scales(tfm_arena *arena, tfm__matrix *w, int with_block_sums,
                                           tfm_error *err) {
    int64_t padded = tfm__packed_padded_rows(w->rows);
    int64_t sums = padded * tfm__packed_blocks(w->columns);
    TFM__TRY(TFM__TAKE(arena, padded, 1, &w->scales, err));
    if (w->scales) memset(w->scales, 0, (size_t)padded * sizeof *w->scales);
    if (!with_block_sums) return TFM_OK;
    TFM__TRY(TFM__TAKE(arena, sums, 1, &w->block_sums, err));
    if (w->block_sums) memset(w->block_sums, 0, (size_t)sums * sizeof *w->block_sums);
    return TFM_OK;
}

/* Returns the type that a matrix gets: the wanted one, else the file's, or F32 if the kernels have
   no tiles for it. TFM_WEIGHT_TYPE_AS_STORED: it becomes rows of floats. */
static tfm_weight_type tfm__packed_type(const tfm__packer *p, const tfm__matrix *stored) {
    tfm_weight_type type = p->weights ? p->weights : tfm__type_of_dtype(stored->dtype);
#ifdef TRANSFORMER_BLAS
    const int keeps_rows = 1;
#else
    const int keeps_rows = p->in_place && !stored->k_group;
#endif
    if (!p->kernels->tiles[type]) type = TFM_WEIGHT_TYPE_F32;
    return type == TFM_WEIGHT_TYPE_F32 && keeps_rows ? TFM_WEIGHT_TYPE_AS_STORED : type;
}

/* Writes row i of a stored matrix as elements of a type, and sets the scale of int8. */
static void tfm__packed_convert_row(const tfm__packer *p, const tfm__matrix *stored, int64_t i,
                                    tfm_weight_type type, unsigned char *to, float *scale) {
    const int64_t K = stored->columns, bytes = tfm__dtype_bytes(tfm__types[type].dtype, K);
    float *floats = (float *)p->scratch + TFM__PANEL * (K + 1);
    *scale = stored->scales ? stored->scales[i] : 0.0f;
    if (p->copies) {
        memcpy(to, stored->data + i * bytes, (size_t)bytes);
        return;
    }
    tfm__matrix_read_row(stored, i, floats);
    if (type == TFM_WEIGHT_TYPE_I8) {
        float factor = tfm__int8_factor(p->kernels, floats, K, scale);
        p->kernels->quantize(to, floats, factor, 0, K);
    } else tfm__narrow(to, floats, tfm__types[type].dtype, K);
}

/* Packs panel i of w, from rows converted in scratch, because it may take the place of the rows. */
static void tfm__packed_fill_panel(const tfm__packer *p, const tfm__matrix *stored,
                                   const tfm__matrix *w, int64_t i) {
    const int64_t bytes = tfm__dtype_bytes(tfm__types[w->type].dtype, w->columns);
    const int64_t row_bytes = tfm__packed_panel_bytes(w->type, w->columns) / TFM__PANEL;
    const unsigned char *rows[TFM__PANEL];
    unsigned char *to = (unsigned char *)p->scratch;
    int64_t r, row = i * TFM__PANEL;
    float scale;
    for (r = 0; r < TFM__PANEL && row < w->rows; r++, row++, to += row_bytes) {
        tfm__packed_convert_row(p, stored, row, w->type, to, &scale);
        memset(to + bytes, 0, (size_t)(row_bytes - bytes)); /* of the last group of columns */
        if (w->scales) w->scales[row] = scale;
        rows[r] = to;
    }
    tfm__packed_set_panel(w, i, rows, tfm__packed_group_bytes(w->type));
    if (w->block_sums) tfm__packed_set_block_sums(p->kernels, w, i);
}

/* Packs a matrix that is as stored in the file, in one of four ways:
     1. Rows of floats stay, for in_place or BLAS.
     2. Panels of the file stay, if the kernels read them.
     3. Panels take the place of their own rows, if the model owns the file's bytes, the elements
        stay as they are, and rows are whole groups of columns:
            file     | rows 0 to 15 | rows 16 to 31 | rows 32 to 40 |
            packed   | panel 0      | panel 1       |                   tail | panel 2, with zeros |
     4. Panels get memory of their own. */
static tfm_status tfm__packed_make(tfm__packer *p, tfm__matrix *w) {
    const tfm__matrix stored = *w;
    const struct tfm__type *type;
    const int64_t panels = tfm__packed_panels(w->rows);
    int64_t panel_bytes, i;
    int is_of_type, replaces_rows;
    w->type = tfm__packed_type(p, &stored);
    if (w->type == TFM_WEIGHT_TYPE_AS_STORED) return tfm__matrix_set_rows(p, w);
    type = &tfm__types[w->type];
    is_of_type = type->dtype == w->dtype &&
                 (type->dtype != TFM_DTYPE_F32 || tfm__are_floats(w->data, TFM_DTYPE_F32));
    if (is_of_type && w->k_group == type->k_group) {
        if (!p->kernels->zero_point) w->block_sums = NULL;
        return TFM_OK;
    }
    p->copies = is_of_type && !w->k_group;
    replaces_rows = p->copies && p->owns_bytes && w->columns % type->k_group == 0;
    panel_bytes = tfm__packed_panel_bytes(w->type, w->columns);
    if (!replaces_rows) {
        TFM__TRY(TFM__TAKE(&p->arena, panels, panel_bytes, &w->data, p->err));
    } else if (w->rows % TFM__PANEL) {
        TFM__TRY(TFM__TAKE(&p->arena, 1, panel_bytes, &w->tail, p->err));
    }
    w->scales = NULL, w->block_sums = NULL;
    if (w->type == TFM_WEIGHT_TYPE_I8)
        TFM__TRY(tfm__packed_alloc_scales(&p->arena, w, p->kernels->zero_point, p->err));
    for (i = 0; i < panels && !p->arena.measuring; i++) tfm__packed_fill_panel(p, &stored, w, i);
    return TFM_OK;
}

/* Packs the matrices of a list of linear maps, in one allocation of the pool. */
static tfm_status tfm__packed_make_all(tfm__packer *p, tfm__pool *pool, tfm__linear *list) {
    tfm__linear *l;
    void *memory;
    size_t bytes;
    p->arena = tfm_arena_measuring();
    for (l = list; l; l = l->next) {
        tfm__matrix untouched = l->w;
        TFM__TRY(tfm__packed_make(p, &untouched));
    }
    bytes = p->arena.peak;
    TFM__TRY(tfm__pool_take(pool, (int64_t)bytes, 1, &memory, p->err));
    p->arena = tfm_arena_make(memory, bytes);
    for (l = list; l; l = l->next) TFM__TRY(tfm__packed_make(p, &l->w));
    return TFM_OK;
}

/* ---- some rows of a matrix, for a shortlist of the output projection ---- */

static tfm_status tfm__matrix_alloc_rows(tfm_arena *arena, const tfm__matrix *w, int64_t n,
                                         tfm__matrix *to, tfm_error *err) {
    *to = *w;
    to->rows = n, to->tail = NULL, to->stride = w->columns;
    if (w->floats) return TFM__TAKE(arena, n, w->columns, &to->floats, err);
    TFM__TRY(TFM__TAKE(arena, tfm__packed_panels(n), tfm__packed_panel_bytes(w->type, w->columns),
                       &to->data, err));
    return w->scales ? tfm__packed_alloc_scales(arena, to, w->block_sums != NULL, err) : TFM_OK;
}

/* Copies rows ids [n] of w into memory for n rows or more. */
static void tfm__matrix_gather_rows(tfm__matrix *to, const tfm__matrix *w, const int32_t *ids,
                                    int64_t n) {
    int64_t bytes = tfm__packed_group_bytes(w->type), padded = tfm__packed_padded_rows(n), i, k;
    to->rows = n;
    for (i = 0; w->floats && i < n; i++)
        memcpy((float *)(uintptr_t)to->floats + i * w->columns, w->floats + ids[i] * w->stride,
               (size_t)w->columns * sizeof(float));
    if (w->floats) return;
    for (i = 0; i < n; i += TFM__PANEL) {
        const unsigned char *rows[TFM__PANEL];
        for (k = 0; k < TFM__PANEL && i + k < n; k++)
            rows[k] = tfm__packed_panel(w, ids[i + k] / TFM__PANEL, 0) +
                      ids[i + k] % TFM__PANEL * bytes;
        tfm__packed_set_panel(to, i / TFM__PANEL, rows, TFM__PANEL * bytes);
    }
    for (i = 0; to->scales && i < n; i++) to->scales[i] = w->scales[ids[i]];
    for (k = 0; to->block_sums && k < tfm__packed_blocks(w->columns); k++)
        for (i = 0; i < n; i++)
            to->block_sums[k * padded + i] =
                w->block_sums[k * tfm__packed_padded_rows(w->rows) + ids[i]];
}

/* ---- products ---- */

/* A product y = activation(x w^T + bias), which is multiplied by a gate if there is one. */
typedef struct tfm__product {
    tfm__rows y, x;
    const tfm__linear *w;
    int64_t first;            /* row of w that gives column 0 of y: a multiple of 16 */
    int activation;           /* a tfm_activation, TFM__SIGMOID, or -1 for none */
    int64_t gate;             /* floats from y to the factors of y; 0: no gate */
    unsigned char *converted; /* x as tiles read it, rows TFM__X_STRIDE bytes apart: int8 or bf16,
                                 block by block, or floats of attention; NULL: they read x */
    int64_t converted_block;  /* bytes from one block of columns to the next; orders are halfway */
    float *scales;            /* [rows of x]: scales of int8; NULL: none */
} tfm__product;

static tfm__product tfm__product_make(const tfm__rows *y, const tfm__rows *x,
                                      const tfm__linear *w) {
    tfm__product p;
    memset(&p, 0, sizeof p);
    p.y = *y, p.x = *x, p.w = w, p.activation = -1;
    return p;
}

/* Returns the bytes of an element of x after conversion, or 0 if the tiles for w read floats. */
static int64_t tfm__product_x_size(const tfm__kernels *kernels, const tfm__matrix *w) {
    return w->scales ? 1 : w->type == TFM_WEIGHT_TYPE_BF16 && kernels->narrow ? 2 : 0;
}

/* Returns the bytes of a block of a converted row of x, with its order. */
static int64_t tfm__product_x_stride(const tfm__kernels *kernels, const tfm__matrix *w) {
    return w->scales && kernels->split ? 2 * TFM__X_STRIDE : TFM__X_STRIDE;
}

/* Returns the bytes of a converted row of x. */
static int64_t tfm__product_x_bytes(const tfm__kernels *kernels, const tfm__matrix *w) {
    return tfm__packed_blocks(tfm__product_x_size(kernels, w) * w->columns) *
           tfm__product_x_stride(kernels, w);
}

/* Returns whether a and b convert x alike, so that both can read one conversion. */
static int tfm__product_shares_x(const tfm__kernels *kernels, const tfm__matrix *a,
                                 const tfm__matrix *b) {
    int64_t size = tfm__product_x_size(kernels, a);
    return size == tfm__product_x_size(kernels, b) &&
           (size != 1 || memcmp(&a->input_factor, &b->input_factor, sizeof(float)) == 0);
}

/* Converts rows first to end of x. Zeros fill the last vector, because tiles read whole vectors. */
static void tfm__product_convert(const tfm__kernels *kernels, const tfm__product *p, int64_t first,
                                 int64_t end) {
    int64_t K = p->x.D, size = tfm__product_x_size(kernels, &p->w->w), i, k, n;
    const float stated = p->w->w.input_factor;
    for (i = first; i < end; i++) {
        const float *x = tfm__row(&p->x, i / p->x.L, i % p->x.L);
        unsigned char *to = p->converted + i * TFM__X_STRIDE;
        float factor = stated;
        if (size == 1 && stated > 0) p->scales[i] = 1 / stated;
        else if (size == 1) factor = tfm__int8_factor(kernels, x, K, &p->scales[i]);
        for (k = 0; k < K; k += n, x += n, to += p->converted_block) {
            n = tfm__min(TFM__X_BYTES / size, K - k);
            if (size == 1) kernels->quantize(to, x, factor, kernels->zero_point, n);
            else kernels->narrow(to, x, n);
            memset(to + n * size, 0, (size_t)(-n * size & 63));
            if (size == 1 && kernels->split) kernels->split(to, to + p->converted_block / 2, n);
        }
    }
}

/* Applies activation and gate to n columns of a row of y whose sums are complete. */
static void tfm__product_finish(const tfm__kernels *kernels, const tfm__product *p, float *y,
                                int64_t n) {
    if (p->activation >= 0) kernels->activate(y, n, (tfm_activation)p->activation);
    if (p->gate) kernels->times(y, y + p->gate, n);
}

/* Multiplies one batch row of x by a w that is rows of floats. */
static void tfm__product_rows(const tfm__kernels *kernels, const tfm__product *p) {
    const tfm__matrix *w = &p->w->w;
    const float *first = w->floats + p->first * w->stride;
    const float *bias = p->w->bias ? p->w->bias + p->first : NULL;
    int64_t M = p->x.L, N = p->y.D, K = w->columns, m, n, block, end;
    int i;
#ifdef TRANSFORMER_BLAS
    /* BLAS has no rows that overlap, as the windows of a spectrogram do */
    const int apart = M == 1 || p->x.sl >= K;
    if (apart && K > 0 && M <= INT32_MAX && N <= INT32_MAX && K <= INT32_MAX) {
        cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, (int)M, (int)N, (int)K, 1.0f,
                    p->x.data, (int)tfm__max(p->x.sl, K), first, (int)tfm__max(w->stride, K), 0.0f,
                    p->y.data, (int)tfm__max(p->y.sl, N));
        M = 0;
    }
#endif
    for (m = 0; M < 4 && m < M; m++)
        kernels->dots(tfm__row(&p->y, 0, m), tfm__row(&p->x, 0, m), first, w->stride, N, K, 0);
    /* A block of rows of x stays in the second-level cache while it is multiplied by all of w.
       Without blocks, each four rows of w would read all of x from memory. */
    block = tfm__max(4, 65536 / tfm__max(K, 1) / 4 * 4);
    for (end = 0; M >= 4 && end < M;) {
        const int64_t begin = end;
        end = tfm__min(M, begin + block);
        for (n = 0; n < N; n += 4)
            for (m = begin; m < end; m += 4) {
                const float *xs[4], *ws[4];
                float sums[16];
                for (i = 0; i < 4; i++) {
                    xs[i] = tfm__row(&p->x, 0, tfm__min(m + i, M - 1));
                    ws[i] = first + tfm__min(n + i, N - 1) * w->stride;
                }
                kernels->dots_4x4(xs, ws, K, sums);
                for (i = 0; i < tfm__min(4, M - m); i++)
                    memcpy(tfm__row(&p->y, 0, m + i) + n, sums + 4 * i,
                           (size_t)tfm__min(4, N - n) * sizeof(float));
            }
    }
    for (m = 0; m < p->x.L; m++) {
        if (bias) kernels->add(tfm__row(&p->y, 0, m), bias, N);
        tfm__product_finish(kernels, p, tfm__row(&p->y, 0, m), N);
    }
}

/* Runs a tile at the edge of y, where only some columns exist. The kernel writes whole tiles, so it
   gets memory of its own, and the columns that exist are copied. */
static void tfm__product_edge(const tfm__tiling *tiling, const tfm__tile *t, int64_t columns) {
    enum { WIDTH = (int)TFM__MOST_PANELS * TFM__PANEL, MOST = (int)TFM__MOST_ROWS * WIDTH };
    float y[MOST], bias[WIDTH];
    size_t bytes = (size_t)columns * sizeof *y;
    tfm__tile edge = *t;
    int r;
    memset(y, 0, (size_t)tiling->rows * WIDTH * sizeof *y);
    memset(bias, 0, sizeof bias);
    edge.y = y, edge.y_stride = WIDTH;
    if (t->bias) edge.bias = (float *)memcpy(bias, t->bias, bytes);
    for (r = 0; r < t->rows && !t->begins; r++)
        memcpy(y + r * WIDTH, t->y + r * t->y_stride, bytes);
    tiling->run(&edge);
    for (r = 0; r < t->rows; r++) memcpy(t->y + r * t->y_stride, y + r * WIDTH, bytes);
}

/* Points a tile at row m and column n of y and at w from column k on. ahead is the column of y
   where the next tile begins, whose panels are prefetched. */
static void tfm__product_aim(tfm__tile *t, const tfm__product *p, int64_t m, int64_t n, int64_t k,
                             int64_t ahead) {
    const tfm__matrix *w = &p->w->w;
    int64_t panel = (p->first + n) / TFM__PANEL, last = tfm__packed_panels(w->rows) - 1;
    int64_t bytes = t->ahead_stride;
    int64_t at = tfm__dtype_bytes(tfm__types[w->type].dtype, k * TFM__PANEL);
    int i;
    for (i = 0; i < TFM__MOST_PANELS; i++)
        t->w[i] = tfm__packed_panel_at(w, tfm__min(panel + i, last), bytes) + at;
    t->ahead = tfm__packed_panel_at(w, tfm__min((p->first + ahead) / TFM__PANEL, last), bytes) + at;
    t->y = tfm__row(&p->y, 0, m) + n;
    t->bias = p->w->bias && k + t->K >= w->columns ? p->w->bias + p->first + n : NULL;
    if (w->scales) t->w_scales = w->scales + panel * TFM__PANEL;
    if (w->block_sums)
        t->block_sums = w->block_sums + k / TFM__X_BYTES * tfm__packed_padded_rows(w->rows) +
                        panel * TFM__PANEL;
}

/* Returns the share of a product with rows of x from row m on and columns of y from column n on. */
static tfm__product tfm__product_share(const tfm__product *p, int64_t m, int64_t rows, int64_t n,
                                       int64_t columns) {
    tfm__product share = *p;
    share.first += n, share.x.data += m * p->x.sl, share.y.data += m * p->y.sl + n;
    share.x.L = share.y.L = rows, share.y.D = columns;
    if (p->converted) share.converted += m * TFM__X_STRIDE;
    if (p->scales) share.scales += m;
    return share;
}

/* Returns the tiles for a weight type, from many rows to one. Only Intel's CPUs are faster with the
   tall tile. */
static const tfm__tiling *tfm__product_tiling(const tfm__kernels *kernels, tfm_weight_type type) {
    const tfm__tiling *tiling = kernels->tiles[type];
    return tiling->rows == TFM__TALL && !tfm__cpu_is_intel() ? tiling + 1 : tiling;
}

/* Copies columns k to k + n - 1 of `rows` rows of x from row `first` on, TFM__X_STRIDE bytes apart.
   After the last row of x, it stands in for the others. */
static void tfm__product_copy_x(const tfm__product *p, int64_t first, int rows, int64_t k,
                                int64_t n, float *to) {
    int r;
    for (r = 0; r < rows; r++, to += TFM__X_STRIDE / 4)
        memcpy(to, tfm__row(&p->x, 0, tfm__min(first + r, p->x.L - 1)) + k, (size_t)n * sizeof *to);
}

/* Adds the products of up to step columns of x and w, from column k on, to a share y, whose w stays
   in the second-level cache. Tiles go over y like this, and each prefetches the panels of the next:

                  panels of w, `panels` for a tile
              +---------+---------+--------
     rows of  | 1       | 2       | ..      first to end - 1: as many rows as a tile has, whose part
     x        +---------+---------+         of x is copied once and stays in the first-level cache
              | n + 1   | n + 2   | ..      the next rows: at the end a tile for fewer of them
*/
static void tfm__product_chunk(const tfm__kernels *kernels, const tfm__product *p, int64_t k,
                               int64_t step) {
    const tfm__tiling *tiling = tfm__product_tiling(kernels, p->w->w.type);
    const int64_t K = p->w->w.columns, M = p->x.L, N = p->y.D;
    float block[(int)TFM__X_ROWS * TFM__X_STRIDE / 4]; /* the rows of a tile, where x is floats */
    const int copies = !p->converted && M > 1;         /* a single row is read in place */
    int64_t m, n, first, end, next, ahead;
    int configured = 0;
    tfm__tile t;
    memset(&t, 0, sizeof t);
    t.y_stride = p->y.sl, t.x = copies ? block : p->x.data + k;
    t.ahead_stride = tfm__packed_panel_bytes(p->w->w.type, K);
    t.K = tfm__min(step, K - k), t.begins = k == 0, t.order = p->converted_block / 2;
    for (first = 0; first < M; first = end) {
        while (tiling->least > M - first) tiling++;
        end = tfm__min(M, first + tiling->rows);
        /* the floats of attention are where tiles can read them, so a panel serves all rows */
        if (p->converted && p->w->w.type == TFM_WEIGHT_TYPE_F32)
            end = tfm__max(end, M - (M - first) % tiling->rows);
        if (tiling->configured && !configured) kernels->configure(configured = 1);
        if (copies) tfm__product_copy_x(p, first, tiling->rows, k, t.K, block);
        for (n = 0; n < N; n = next)
            for (next = n + tiling->panels * TFM__PANEL, m = first; m < end; m += t.rows) {
                const tfm__tiling *tile = tiling;
                while (tile->least > end - m) tile++;
                t.rows = (int)tfm__min(tile->rows, end - m);
                if (p->converted)
                    t.x = p->converted + k / step * p->converted_block + m * TFM__X_STRIDE;
                if (p->scales) t.x_scales = p->scales + m;
                if (m + t.rows < end) ahead = n;
                else ahead = next < N || end == M ? next : 0;
                tfm__product_aim(&t, p, m, n, k, ahead);
                if (next <= N) tile->run(&t);
                else tfm__product_edge(tile, &t, N - n);
            }
        for (m = first; m < end && k + t.K >= K; m++)
            tfm__product_finish(kernels, p, tfm__row(&p->y, 0, m), N);
    }
    if (configured) kernels->configure(0);
}

/* Multiplies one batch row of x by packed weights, chunk by chunk: all columns of w, then the next
   columns of y, then the next rows. */
static void tfm__product_packed(const tfm__kernels *kernels, const tfm__product *p) {
    const tfm__matrix *w = &p->w->w;
    int64_t K = tfm__max(1, w->columns), rows, wide, step, m, n, k;
    int64_t larger = !p->converted && tfm__cpu_has_large_cache() ? 2 : 1; /* blocks of floats */
    step = TFM__X_BYTES / (p->converted ? tfm__product_x_size(kernels, w) : 4);
    wide = larger * TFM__W_CHUNK / tfm__packed_panel_bytes(w->type, tfm__min(K, step));
    wide = tfm__max(1, wide / TFM__MOST_PANELS) * TFM__MOST_PANELS * TFM__PANEL;
    rows = larger * TFM__X_CHUNK;
    if (p->converted && tfm__packed_bytes(w->type, p->y.D, K) > 2 * TFM__W_CHUNK)
        rows = TFM__CONVERTED_CHUNK;
    if (p->x.L == 1 && !p->converted) step = K;
    for (m = 0; m < p->x.L; m += rows)
        for (n = 0; n < p->y.D; n += wide) {
            tfm__product share =
                tfm__product_share(p, m, tfm__min(rows, p->x.L - m), n, tfm__min(wide, p->y.D - n));
            for (k = 0; k < K; k += step) tfm__product_chunk(kernels, &share, k, step);
        }
}

/* ---- products in parts ---- */

/* Up to three products of the same x, which is converted once for all of them, and the parts that
   threads compute. A part has some rows of all products, or some columns of one product. Parts by
   rows each read all of w, so they pay only with many rows; parts by columns read their own. */
typedef struct tfm__product_job {
    const tfm__kernels *kernels;
    tfm__product all[3];
    int n, by_rows;
    int64_t rows;  /* of x */
    int64_t parts; /* by columns: of each product */
} tfm__product_job;

enum {
    TFM__WORTH_CONVERTING = 1 << 15, /* elements of x whose conversion is worth sharing */
    TFM__MANY_ROWS = 96              /* rows a thread from which reading all of w is cheap */
};

/* Returns where part i begins when n things are divided in whole lots; the last may be smaller. */
static int64_t tfm__part_begin(int64_t i, int64_t parts, int64_t n, int64_t lot) {
    return tfm__min(n, i * tfm__blocks(n, lot) / parts * lot);
}

static void tfm__product_convert_part(void *context, int32_t part) {
    const tfm__product_job *job = (const tfm__product_job *)context;
    tfm__product_convert(job->kernels, job->all, tfm__part_begin(part, job->parts, job->rows, 1),
                         tfm__part_begin(part + 1, job->parts, job->rows, 1));
}

static void tfm__product_part(void *context, int32_t part) {
    const tfm__product_job *job = (const tfm__product_job *)context;
    int64_t i = part % job->parts, b;
    int which = job->by_rows ? 0 : (int)(part / job->parts);
    int end = job->by_rows ? job->n : which + 1;
    for (; which < end; which++) {
        const tfm__product *whole = &job->all[which];
        int64_t n = job->by_rows ? whole->x.L : whole->y.D;
        const tfm__tiling *tiling = job->by_rows && whole->w->w.type
                                        ? tfm__product_tiling(job->kernels, whole->w->w.type)
                                        : NULL;
        int64_t lot = !tiling ? (int)TFM__PANEL : tiling->least > 1 ? tiling->rows : 1;
        int64_t first = tfm__part_begin(i, job->parts, n, lot);
        int64_t some = tfm__part_begin(i + 1, job->parts, n, lot) - first;
        tfm__product p = job->by_rows ? tfm__product_share(whole, first, some, 0, whole->y.D)
                                      : tfm__product_share(whole, 0, whole->x.L, first, some);
        if (some < 1) continue;
        if (job->by_rows && !which && p.converted) tfm__product_convert(job->kernels, &p, 0, some);
        TFM__COUNT(2 * p.x.B * p.x.L * p.y.D * p.x.D);
        for (b = 0; b < p.x.B; b++, p.x.data += p.x.sb, p.y.data += p.y.sb) {
            if (p.w->w.type) tfm__product_packed(job->kernels, &p);
            else tfm__product_rows(job->kernels, &p);
            if (p.converted) p.converted += p.x.L * TFM__X_STRIDE;
            if (p.scales) p.scales += p.x.L;
        }
    }
}

/* Prepares a product for its kernels, and gives it the team's memory if x has to be converted.
   Makes one batch row of adjacent ones, so w is read once. Returns whether there is only one. */
static int tfm__product_prepare(tfm__product *p, const tfm__team *team) {
    if (tfm__product_x_size(team->kernels, &p->w->w)) {
        p->converted = team->converted, p->scales = team->scales;
        p->converted_block = p->x.B * p->x.L * tfm__product_x_stride(team->kernels, &p->w->w);
    }
    if (p->x.sb == p->x.L * p->x.sl && p->y.sb == p->y.L * p->y.sl) p->x.L *= p->x.B, p->x.B = 1;
    return p->x.B == 1;
}

/* Computes up to three products of the same x, in parts where that pays. */
static void tfm__product_run(const tfm__team *team, const tfm__product *products, int n) {
    tfm__team workers = *team;
    tfm__product_job job;
    int64_t operations;
    int i;
    for (i = 1; i < n; i++)
        if (!tfm__product_shares_x(team->kernels, &products->w->w, &products[i].w->w)) {
            tfm__product_run(team, products + i, n - i);
            n = i;
        }
    job.kernels = team->kernels, job.n = n, job.parts = job.by_rows = 1;
    job.rows = products->x.B * products->x.L;
    if (job.rows < 1) return;
    for (i = 0; i < n; i++) {
        job.all[i] = products[i];
        job.by_rows &= tfm__product_prepare(&job.all[i], team);
    }
    operations = 2 * job.rows * products->x.D * products->y.D;
    if (!tfm__team_shares(team, n * operations)) workers.n = 1;
    else if (operations >= TFM__WORTH_SHARING)
        job.parts = tfm__min(operations / (TFM__WORTH_SHARING / 2), 2 * (int64_t)team->n);
#ifdef TRANSFORMER_BLAS
    job.parts = 1;
#endif
    job.by_rows &= job.rows >= TFM__MANY_ROWS * (int64_t)workers.n;
    if (job.by_rows) n = 1;
    else if (job.all->converted && job.rows * products->x.D < TFM__WORTH_CONVERTING)
        tfm__product_convert(team->kernels, job.all, 0, job.rows);
    else if (job.all->converted)
        tfm__team_run(&workers, tfm__product_convert_part, &job, (int32_t)job.parts);
    if (workers.n > 1) tfm__team_run(&workers, tfm__product_part, &job, (int32_t)(n * job.parts));
    else
        for (i = 0; i < n * job.parts; i++) tfm__product_part(&job, i);
}

/* Computes y = exp(x - max) in n entries and returns the factor that makes their sum 1. x may be
   y. If all are -inf, all become 0. */
static float tfm__exp_row(const tfm__kernels *kernels, float *y, const float *x, int64_t n) {
    float max = kernels->largest(x, n);
    double sum;
    if (max == -INFINITY) max = 0.0f;
    sum = kernels->exp_sum(y, x, max, n);
    return sum != 0 ? (float)(1 / sum) : 1.0f;
}

static void tfm__softmax_row(const tfm__kernels *kernels, float *y, const float *x, int64_t n) {
    kernels->scale(y, tfm__exp_row(kernels, y, x, n), n);
}

#ifdef TFM__NO_MODULES
#pragma push_macro("TFM_DEF")
#undef TFM_DEF
#define TFM_DEF static
#endif

/* >>positions =====================================================================================
   16. POSITIONAL ENCODINGS
   One column at a time, because a column has one frequency. This code rounds to float where PyTorch
   code does (exponent, frequency, angle), unless double_angles is set: at large positions the
   rounding is larger than 1e-5, and a trained model has seen it.
   ============================================================================================== */

/* Sets a column's frequency (tfm_position_kind). Returns 0 for sines, 1 for cosines, 2 for
   zeros. */
static int tfm__position_wave(const tfm_position_options *o, int64_t column, int64_t D,
                              double *frequency) {
    double base = o->base != 0 ? o->base : 10000.0, step = tfm__log(base) / (double)D;
    int64_t i = column / 2, half = o->divisor_half ? D / 2 : (D + 1) / 2;
    int wave = (int)(column & 1);
    if (o->divisor_half) step = half > 1 ? tfm__log(base) / (double)(half - 1) : 0;
    if (o->kind == TFM_POSITION_KIND_SINUSOIDAL_HALVES) {
        wave = column >= half;
        i = column - wave * half;
        if (i >= half) wave = 2; /* D is odd and the divisor D/2 - 1 */
    }
    if (o->kind == TFM_POSITION_KIND_SINUSOIDAL_PER_INDEX ||
        (o->double_angles && !o->divisor_half)) {
        if (o->kind == TFM_POSITION_KIND_SINUSOIDAL_PER_INDEX) i = column;
        *frequency = 1 / tfm__pow(base, 2.0 * (double)i / (double)D);
    } else if (o->double_angles) *frequency = tfm__exp((double)i * -step);
    else { /* torch.exp(arange(0, D, 2) * -(log(base) / D)), rounded where PyTorch rounds */
        float exponent = (float)(o->divisor_half ? i : 2 * i) * -(float)step;
        *frequency = (double)(float)tfm__exp((double)exponent);
    }
    return wave;
}

/* Computes out[b, l] = PE(first + l), and zeros from lengths[b] on. */
static void tfm__position_rows(const tfm__rows *out, const tfm_position_options *o,
                               const int32_t *lengths) {
    const float *table = (const float *)o->table.data;
    int64_t b, l, j, D = out->D;
    for (j = 0; j < D; j++) {
        double frequency;
        int wave = tfm__position_wave(o, j, D, &frequency);
        int per_index = o->kind == TFM_POSITION_KIND_SINUSOIDAL_PER_INDEX;
        for (b = 0; b < out->B; b++)
            for (l = 0; l < out->L; l++) {
                int64_t p = o->first + l;
                double angle = (double)p * frequency, value = 0;
                if (!o->double_angles && !per_index) angle = (double)((float)p * (float)frequency);
                if (o->kind == TFM_POSITION_KIND_LEARNED)
                    value = (double)table[p * o->table.strides[0] + j];
                else if (o->kind != TFM_POSITION_KIND_NONE && wave < 2 && !(per_index && p == 0))
                    value = tfm__sine(angle, wave);
                tfm__row(out, b, l)[j] = lengths && l >= lengths[b] ? 0.0f : (float)value;
            }
    }
}

TFM_DEF tfm_status tfm_positions(tfm_tensor *out, const tfm_position_options *options,
                                 const int32_t *lengths, tfm_error *err) {
    tfm__rows rows;
    int64_t end;
    if (!options) return tfm__fail(err, TFM_E_ARGUMENT, "options is NULL");
    TFM__TRY(tfm__view(out, "out", 2, 3, &rows, err));
    TFM__TRY(tfm__check_choice((int)options->kind, &tfm__position_words, "options", ".kind", err));
    if (options->first < 0 || !tfm__add(options->first, rows.L, &end))
        return tfm__fail(err, TFM_E_ARGUMENT, "options.first is %i, expected 0 to 2^63 - %i",
                         options->first, rows.L + 1);
    if (options->kind == TFM_POSITION_KIND_LEARNED) {
        const tfm_tensor *table = &options->table;
        TFM__TRY(tfm__check_tensor(table, "options.table", TFM_DTYPE_F32, 2, 2, err));
        if (table->dims[1] != rows.D)
            return tfm__fail(err, TFM_E_SHAPE, "options.table is %t, expected %i columns", table,
                             rows.D);
        if (end > table->dims[0])
            return tfm__fail(err, TFM_E_TOO_LONG, "%i positions needed, options.table has %i", end,
                             table->dims[0]);
    }
    tfm__position_rows(&rows, options, lengths);
    return TFM_OK;
}

/* >>modules =======================================================================================
   17. NORM, LINEAR, SOFTMAX, FEED-FORWARD, SSRU
   tfm__X_run computes and cannot fail. tfm__X_view checks a caller's weights and sees them as the
   products do. The public functions do both; the stacks (>>stack) compute after one check of all.
   ============================================================================================== */

/* Normalizes row by row; out may be x. */
static void tfm__norm_run(const tfm__kernels *kernels, const tfm__rows *out, const tfm__rows *x,
                          const tfm_norm_weights *w) {
    int even = x->sb == x->L * x->sl && out->sb == x->L * out->sl;
    int64_t B = even ? 1 : x->B, L = even ? x->B * x->L : x->L, b;
    TFM__PART(NORM);
    for (b = 0; b < B; b++)
        kernels->norm(tfm__row(out, b, 0), out->sl, tfm__row(x, b, 0), x->sl, L, x->D, w);
}

/* Checks that the part of name, such as ".bias", is absent or has n floats. */
static tfm_status tfm__check_vector(const tfm_tensor *t, const char *name, const char *part,
                                    int64_t n, tfm_error *err) {
    char all[64];
    tfm__format(all, sizeof all, "%s%s", name, part);
    return tfm__check_optional(t, all, tfm_tensor_1d(NULL, TFM_DTYPE_F32, n), err);
}

static int tfm__norm_exists(const tfm_norm_weights *w) { return w->weight.data || w->bias.data; }

/* Checks a layer norm over D columns, which messages call name. */
static tfm_status tfm__norm_check(const tfm_norm_weights *w, const char *name, int64_t D,
                                  tfm_error *err) {
    TFM__TRY(tfm__check_vector(&w->weight, name, ".weight", D, err));
    TFM__TRY(tfm__check_vector(&w->bias, name, ".bias", D, err));
    TFM__TRY(tfm__check_choice((int)w->kind, &tfm__norm_kind_words, name, ".kind", err));
    if (D < 1 || (D < 2 && w->kind == TFM_NORM_KIND_LAYER_NORM_UNBIASED))
        return tfm__fail(err, TFM_E_SHAPE,
                         "%s: %i columns cannot be normalized, expected %d or more", name, D,
                         w->kind == TFM_NORM_KIND_LAYER_NORM_UNBIASED ? 2 : 1);
    if (!(w->eps >= 0))
        return tfm__fail(err, TFM_E_ARGUMENT,
                         "%s.eps is negative or no number, expected 0 (the default) or more", name);
    return TFM_OK;
}

TFM_DEF tfm_status tfm_layer_norm(tfm_tensor *out, const tfm_tensor *x,
                                  const tfm_norm_weights *weights, tfm_error *err) {
    tfm_norm_weights plain;
    tfm__rows from, to;
    TFM__TRY(tfm__view(x, "x", 1, TFM_MAX_RANK, &from, err));
    TFM__TRY(tfm__view_like(out, "out", *x, &to, err));
    memset(&plain, 0, sizeof plain);
    if (!weights) weights = &plain;
    TFM__TRY(tfm__norm_check(weights, "norm", from.D, err));
    tfm__norm_run(tfm__kernel_best(), &to, &from, weights);
    return TFM_OK;
}

/* Returns the team for a module that a program calls by itself: one thread, the best kernels. */
static tfm__team tfm__team_alone(void) {
    tfm__team team;
    memset(&team, 0, sizeof team);
    team.kernels = tfm__kernel_best();
    team.n = 1;
    return team;
}

/* Computes out = x weight^T + bias. */
static void tfm__linear_run(const tfm__team *team, const tfm__rows *out, const tfm__rows *x,
                            const tfm__linear *w) {
    tfm__product p = tfm__product_make(out, x, w);
    tfm__product_run(team, &p, 1);
}

/* Views a linear map [rows, columns], which messages call name and part. rows -1: any number. */
static tfm_status tfm__linear_view(const tfm_linear_weights *w, const char *name, const char *part,
                                   int64_t rows, int64_t columns, tfm__linear *view,
                                   tfm_error *err) {
    char all[64];
    memset(view, 0, sizeof *view);
    tfm__format(all, sizeof all, "%s%s.weight", name, part);
    TFM__TRY(tfm__check_tensor(&w->weight, all, TFM_DTYPE_F32, 2, 2, err));
    if (w->weight.dims[1] != columns)
        return tfm__fail(err, TFM_E_SHAPE, "%s is %t, its input has %i columns", all, &w->weight,
                         columns);
    if (rows >= 0 && w->weight.dims[0] != rows)
        return tfm__fail(err, TFM_E_SHAPE, "%s is %t, expected %i rows", all, &w->weight, rows);
    view->w.rows = w->weight.dims[0];
    view->w.columns = columns;
    view->w.floats = (const float *)w->weight.data;
    view->w.stride = w->weight.strides[0];
    view->bias = (const float *)w->bias.data;
    tfm__format(all, sizeof all, "%s%s", name, part);
    return tfm__check_vector(&w->bias, all, ".bias", view->w.rows, err);
}

TFM_DEF tfm_status tfm_linear(tfm_tensor *out, const tfm_tensor *x,
                              const tfm_linear_weights *weights, tfm_error *err) {
    tfm__team team = tfm__team_alone();
    tfm_tensor expected;
    tfm__linear linear;
    tfm__rows from, to;
    TFM__TRY(tfm__view(x, "x", 1, TFM_MAX_RANK, &from, err));
    if (!weights) return tfm__fail(err, TFM_E_ARGUMENT, "weights is NULL");
    TFM__TRY(tfm__linear_view(weights, "linear", "", -1, from.D, &linear, err));
    expected = *x;
    expected.dims[x->rank - 1] = linear.w.rows;
    TFM__TRY(tfm__view_like(out, "out", expected, &to, err));
    tfm__linear_run(&team, &to, &from, &linear);
    return TFM_OK;
}

TFM_DEF tfm_status tfm_softmax(tfm_tensor *out, const tfm_tensor *x, tfm_error *err) {
    const tfm__kernels *kernels = tfm__kernel_best();
    tfm__rows from, to;
    int64_t b, l;
    TFM__TRY(tfm__view(x, "x", 1, TFM_MAX_RANK, &from, err));
    TFM__TRY(tfm__view_like(out, "out", *x, &to, err));
    for (b = 0; b < from.B; b++)
        for (l = 0; l < from.L; l++)
            tfm__softmax_row(kernels, tfm__row(&to, b, l), tfm__row(&from, b, l), from.D);
    return TFM_OK;
}

TFM_DEF tfm_status tfm_activate(tfm_tensor *out, const tfm_tensor *x, tfm_activation activation,
                                tfm_error *err) {
    tfm__rows from, to;
    int64_t b, l;
    TFM__TRY(tfm__view(x, "x", 1, TFM_MAX_RANK, &from, err));
    TFM__TRY(tfm__view_like(out, "out", *x, &to, err));
    TFM__TRY(tfm__check_choice((int)activation, &tfm__activation_words, "activation", "", err));
    for (b = 0; b < to.B; b++)
        for (l = 0; l < to.L; l++) {
            float *row = tfm__row(&to, b, l), *in = tfm__row(&from, b, l);
            if (row != in) memcpy(row, in, (size_t)to.D * sizeof *row);
            tfm__kernel_best()->activate(row, to.D, activation);
        }
    return TFM_OK;
}

/* A feed-forward as the products see it. */
typedef struct tfm__ffn {
    tfm__linear linear1, linear2, gate; /* gate without rows: none */
    tfm_activation activation;
} tfm__ffn;

/* Returns the columns of a feed-forward's scratch: the outputs of linear1, then those of gate. */
static int64_t tfm__ffn_width(const tfm__ffn *w) { return w->linear1.w.rows + w->gate.w.rows; }

/* Computes a feed-forward. hidden has the shape [rows of x, tfm__ffn_width]. */
static void tfm__ffn_run(const tfm__team *team, const tfm__rows *out, const tfm__rows *x,
                         const tfm__ffn *w, float *hidden) {
    tfm__rows h = tfm__rows_make(hidden, x->B, x->L, w->linear1.w.rows), g = h;
    tfm__product first = tfm__product_make(&h, x, &w->linear1), gate;
    TFM__PART(FFN);
    if (w->gate.w.rows) { /* first, because the other product multiplies its results by the gate */
        first.gate = x->B * x->L * h.D;
        g.data += first.gate;
        gate = tfm__product_make(&g, x, &w->gate);
        gate.activation = (int)w->activation;
        tfm__product_run(team, &gate, 1);
    } else first.activation = (int)w->activation;
    tfm__product_run(team, &first, 1);
    tfm__linear_run(team, out, &h, &w->linear2);
}

static tfm_status tfm__ffn_view(const tfm_ffn_weights *w, int64_t D, tfm__ffn *view,
                                tfm_error *err) {
    int64_t F;
    memset(view, 0, sizeof *view);
    view->activation = w->activation;
    TFM__TRY(tfm__linear_view(&w->linear1, "linear1", "", -1, D, &view->linear1, err));
    F = view->linear1.w.rows;
    TFM__TRY(tfm__linear_view(&w->linear2, "linear2", "", D, F, &view->linear2, err));
    if (w->gate.weight.data)
        TFM__TRY(tfm__linear_view(&w->gate, "gate", "", F, D, &view->gate, err));
    return tfm__check_choice((int)w->activation, &tfm__activation_words, "activation", "", err);
}

TFM_DEF tfm_status tfm_feed_forward(tfm_tensor *out, const tfm_tensor *x,
                                    const tfm_ffn_weights *weights, tfm_arena *scratch,
                                    tfm_error *err) {
    tfm__team team = tfm__team_alone();
    tfm__rows from, to;
    tfm__ffn ffn;
    tfm_arena all;
    float *hidden;
    TFM__TRY(tfm__view(x, "x", 1, TFM_MAX_RANK, &from, err));
    TFM__TRY(tfm__view_like(out, "out", *x, &to, err));
    if (!weights || !scratch) return tfm__fail(err, TFM_E_ARGUMENT, "weights or scratch is NULL");
    TFM__TRY(tfm__ffn_view(weights, from.D, &ffn, err));
    all = tfm__scratch_begin(scratch);
    TFM__TRY(TFM__TAKE(&all, from.B * from.L, tfm__ffn_width(&ffn), &hidden, err));
    TFM__TRY(tfm__scratch_end(scratch, &all, err));
    if (!scratch->measuring) tfm__ffn_run(&team, &to, &from, &ffn, hidden);
    return TFM_OK;
}

/* An SSRU as the products see it; without rows: none. */
typedef struct tfm__ssru {
    tfm__linear input, gate;
} tfm__ssru;

/* Computes c = input(x) and the gates, for all positions at once. */
static void tfm__ssru_products(const tfm__team *team, const tfm__rows *c, const tfm__rows *gates,
                               const tfm__rows *x, const tfm__ssru *w) {
    tfm__product products[2];
    products[0] = tfm__product_make(c, x, &w->input);
    products[1] = tfm__product_make(gates, x, &w->gate);
    products[1].activation = TFM__SIGMOID;
    TFM__PART(PROJECTIONS);
    tfm__product_run(team, products, 2);
}

/* Then computes c of block b, position by position. before: c before the first; NULL: zeros. */
static void tfm__ssru_scan(const tfm__rows *rows, const tfm__rows *gates, int64_t b,
                           const float *before) {
    int64_t l, i;
    for (l = 0; l < rows->L; l++) {
        float *c = tfm__row(rows, b, l);
        const float *g = tfm__row(gates, b, l);
        for (i = 0; i < rows->D; i++)
            c[i] = g[i] * (before ? before[i] : 0.0f) + (1.0f - g[i]) * c[i];
        before = c;
    }
}

/* Turns c into the output max(0, c), after the states were copied. */
static void tfm__ssru_out(const tfm__kernels *kernels, const tfm__rows *c) {
    int64_t b, l;
    for (b = 0; b < c->B; b++)
        for (l = 0; l < c->L; l++) kernels->activate(tfm__row(c, b, l), c->D, TFM_ACTIVATION_RELU);
}

/* Views an SSRU [rows, D]. */
static tfm_status tfm__ssru_view(const tfm_ssru_weights *w, int64_t rows, int64_t D,
                                 tfm__ssru *view, tfm_error *err) {
    TFM__TRY(tfm__linear_view(&w->input, "ssru", " input", rows, D, &view->input, err));
    return tfm__linear_view(&w->gate, "ssru", " gate", view->input.w.rows, D, &view->gate, err);
}

TFM_DEF tfm_status tfm_ssru(tfm_tensor *out, tfm_tensor *state, const tfm_ssru_weights *weights,
                            const tfm_tensor *x, tfm_arena *scratch, tfm_error *err) {
    tfm__team team = tfm__team_alone();
    tfm__rows from, to, gates, states;
    tfm__ssru w;
    tfm_arena all;
    int64_t b, W;
    TFM__TRY(tfm__view(x, "x", 3, 3, &from, err));
    if (!weights || !scratch) return tfm__fail(err, TFM_E_ARGUMENT, "weights or scratch is NULL");
    TFM__TRY(tfm__ssru_view(weights, -1, from.D, &w, err));
    W = w.input.w.rows;
    TFM__TRY(tfm__view_like(out, "out", tfm_tensor_3d(NULL, TFM_DTYPE_F32, from.B, from.L, W), &to,
                            err));
    if (state)
        TFM__TRY(tfm__view_like(state, "state", tfm_tensor_2d(NULL, TFM_DTYPE_F32, from.B, W),
                                &states, err));
    gates = tfm__rows_make(NULL, from.B, from.L, W);
    all = tfm__scratch_begin(scratch);
    TFM__TRY(TFM__TAKE(&all, from.B * from.L, W, &gates.data, err));
    TFM__TRY(tfm__scratch_end(scratch, &all, err));
    if (scratch->measuring) return TFM_OK;
    tfm__ssru_products(&team, &to, &gates, &from, &w);
    for (b = 0; b < to.B; b++) {
        float *c = state ? tfm__row(&states, 0, b) : NULL;
        tfm__ssru_scan(&to, &gates, b, c);
        if (c && to.L) memcpy(c, tfm__row(&to, b, to.L - 1), (size_t)to.D * sizeof *c);
    }
    tfm__ssru_out(team.kernels, &to);
    return TFM_OK;
}

/* >>attention =====================================================================================
   18. MASKS, SCALED DOT-PRODUCT AND MULTI-HEAD ATTENTION
   Masks apply in tfm__attend_count_keys and tfm__attend_mask alone. There are two loops:
   tfm__attend_heads goes query by query, over rows or the ancestries of a cache. tfm__attend_tiles
   takes many queries at once and packs keys and values, for encoders. It adds blocks of keys with a
   running softmax, so that scores stay in the L1 cache. What both compute is defined in plain lines
   in tests/library/test_kernels.c. Relies on the products of >>packed.
   ============================================================================================== */

/* Sets mask[i, j] = (ids[i, j] == pad), without ids (j >= lengths[i]), without both (j > i). */
static tfm_status tfm__mask_fill(tfm_tensor *mask, const int32_t *ids, int32_t pad,
                                 const int32_t *lengths, tfm_error *err) {
    int64_t i, j;
    TFM__TRY(tfm__check_tensor(mask, "mask", TFM_DTYPE_BOOL, 2, 2, err));
    for (i = 0; i < mask->dims[0]; i++)
        for (j = 0; j < mask->dims[1]; j++) {
            int64_t seen = lengths ? lengths[i] : i + 1;
            int hidden = ids ? ids[i * mask->dims[1] + j] == pad : j >= seen;
            ((unsigned char *)mask->data)[i * mask->strides[0] + j] = (unsigned char)hidden;
        }
    return TFM_OK;
}

TFM_DEF tfm_status tfm_mask_from_ids(tfm_tensor *mask, const int32_t *ids, int32_t pad,
                                     tfm_error *err) {
    if (!ids) return tfm__fail(err, TFM_E_ARGUMENT, "ids or lengths is NULL");
    return tfm__mask_fill(mask, ids, pad, NULL, err);
}

TFM_DEF tfm_status tfm_mask_from_lengths(tfm_tensor *mask, const int32_t *lengths, tfm_error *err) {
    if (!lengths) return tfm__fail(err, TFM_E_ARGUMENT, "ids or lengths is NULL");
    return tfm__mask_fill(mask, NULL, 0, lengths, err);
}

TFM_DEF tfm_status tfm_mask_causal(tfm_tensor *mask, tfm_error *err) {
    return tfm__mask_fill(mask, NULL, 0, NULL, err);
}

/* Checks that every mask that is given fits attention weights [B, H, T, S]. */
static tfm_status tfm__masks_check(const tfm_masks *m, int64_t B, int64_t H, int64_t T, int64_t S,
                                   tfm_error *err) {
    int64_t b;
    if (!m) return TFM_OK;
    TFM__TRY(tfm__check_optional(&m->key_padding, "key_padding",
                                 tfm_tensor_2d(NULL, TFM_DTYPE_BOOL, B, S), err));
    if (m->attention.data) {
        const tfm_tensor *a = &m->attention;
        TFM__TRY(tfm__check_tensor(a, "attention mask", TFM_DTYPE_BOOL, 2, 3, err));
        if (a->dims[a->rank - 2] != T || a->dims[a->rank - 1] != S ||
            (a->rank == 3 && a->dims[0] != B && a->dims[0] != B * H))
            return tfm__fail(err, TFM_E_SHAPE,
                             "attention mask is %t, expected [%i, %i], or that with %i or %i "
                             "before",
                             a, T, S, B, B * H);
    }
    for (b = 0; m->key_lengths && b < B; b++)
        if (m->key_lengths[b] < 0 || m->key_lengths[b] > S)
            return tfm__fail(err, TFM_E_ARGUMENT, "key_lengths[%i] is %i, expected 0 to %i", b,
                             (int64_t)m->key_lengths[b], S);
    return TFM_OK;
}

/* ---- relative positions ---- */

enum { TFM__MAX_DISTANCE = 128 }; /* of relative positions, by default */

/* A table of relative positions, and where a stack has the values of all distances. */
typedef struct tfm__relative {
    const float *table; /* [buckets, H]; NULL: none */
    int64_t stride, buckets;
    int32_t max_distance, causal;
    int64_t first_head; /* number of heads of the stack's tables before this one */
} tfm__relative;

/* Returns how many distances of one direction have a bucket each. */
static int64_t tfm__relative_exact(const tfm__relative *r) {
    return (r->causal ? r->buckets : r->buckets / 2) / 2;
}

/* Returns the bucket of a distance, the key's position less the query's. Computes in float, like
   T5's own code: how a logarithm rounds decides the bucket at a boundary. */
static int64_t tfm__relative_bucket(const tfm__relative *r, int64_t distance) {
    int64_t n = r->causal ? r->buckets : r->buckets / 2, exact = tfm__relative_exact(r);
    int64_t first = !r->causal && distance > 0 ? n : 0, bucket;
    float log_far, log_most = (float)tfm__log((double)r->max_distance / (double)exact);
    if (r->causal) distance = tfm__min(distance, 0);
    if (distance < 0) distance = -distance;
    if (distance < exact) return first + distance;
    if (distance >= r->max_distance) return first + n - 1;
    log_far = (float)tfm__log((double)((float)distance / (float)exact));
    log_far = log_far / log_most;
    bucket = exact + (int64_t)(log_far * (float)(n - exact));
    return first + tfm__min(bucket, n - 1);
}

/* Writes the bias of H heads for each distance d between two of some positions: head h has it at
   to[(first_head + h) * (2 * positions - 1) + positions - 1 + d]. */
static void tfm__relative_spread(const tfm__relative *r, int64_t H, int64_t positions, float *to) {
    int64_t d, h, width = 2 * positions - 1;
    for (d = 1 - positions; d < positions; d++) {
        const float *row = r->table + tfm__relative_bucket(r, d) * r->stride;
        for (h = 0; h < H; h++) to[(r->first_head + h) * width + positions - 1 + d] = row[h];
    }
}

static tfm_status tfm__relative_check(const tfm__relative *r, const char *name, tfm_status status,
                                      tfm_error *err) {
    int64_t exact = tfm__relative_exact(r);
    if (exact > 0 && r->max_distance > exact) return TFM_OK;
    return tfm__fail(err, status,
                     "%s: %i buckets%s up to a distance of %d, expected at least %d buckets, and a "
                     "distance of more than %i",
                     name, r->buckets, r->causal ? "" : " of both directions", r->max_distance,
                     r->causal ? 2 : 4, tfm__max(exact, 1));
}

/* Views the table of relative positions of an attention with H heads, which messages call name. */
static tfm_status tfm__relative_view(const tfm_relative_positions *w, const char *name, int64_t H,
                                     tfm__relative *view, tfm_error *err) {
    char all[64];
    memset(view, 0, sizeof *view);
    if (!w->table.data) return TFM_OK;
    tfm__format(all, sizeof all, "%s relative.table", name);
    TFM__TRY(tfm__check_tensor(&w->table, all, TFM_DTYPE_F32, 2, 2, err));
    view->buckets = w->table.dims[0];
    TFM__TRY(tfm__check_shape(&w->table, all, tfm_tensor_2d(NULL, TFM_DTYPE_F32, view->buckets, H),
                              err));
    view->table = (const float *)w->table.data;
    view->stride = w->table.strides[0];
    view->max_distance = w->max_distance ? w->max_distance : TFM__MAX_DISTANCE;
    view->causal = w->causal;
    return tfm__relative_check(view, all, TFM_E_ARGUMENT, err);
}

/* ---- the two loops ---- */

/* The rows of heads, by strides of batch row, head and position in elements. */
typedef struct tfm__heads {
    void *data; /* NULL: none */
    int64_t b, h, t;
    int is_f16; /* of a cache: elements are F16; else floats */
} tfm__heads;

static void *tfm__head_at(const tfm__heads *x, int64_t b, int64_t h, int64_t t) {
    return (char *)x->data + (b * x->b + h * x->h + t * x->t) * (x->is_f16 ? 2 : 4);
}
static float *tfm__head_row(const tfm__heads *x, int64_t b, int64_t h, int64_t t) {
    return (float *)tfm__head_at(x, b, h, t);
}

/* Returns the heads of a tensor [B, L, .] or [B, H, L, .], or none if it is NULL. */
static tfm__heads tfm__heads_of_tensor(const tfm_tensor *t) {
    tfm__heads x = {NULL, 0, 0, 0, 0};
    if (t && t->data)
        x.data = t->data, x.b = t->strides[0], x.h = t->strides[1], x.t = t->strides[t->rank - 2];
    return x;
}

/* Returns slices of rows, each with width columns. */
static tfm__heads tfm__heads_of_rows(const tfm__rows *rows, int64_t width) {
    tfm__heads x = {rows->data, rows->sb, width, rows->sl, 0};
    return x;
}

/* Returns rows t to t + L - 1 of a head, D columns each. */
static tfm__rows tfm__rows_of_head(const tfm__heads *x, int64_t b, int64_t h, int64_t t, int64_t L,
                                   int64_t D) {
    tfm__rows rows = {tfm__head_row(x, b, h, t), 1, L, D, 0, x->t};
    return rows;
}

/* One attention: what it multiplies, what a query may see, and how threads share its heads. */
typedef struct tfm__attention {
    const tfm__kernels *kernels;
    tfm__heads q, k, v, context, weights; /* weights without data: not wanted */
    const int32_t *listed; /* [n_listed, 2]: layers and heads whose weights are wanted; NULL: all */
    int32_t n_listed, layer;
    int64_t B, H, T, S, K, W;
    int64_t group;                       /* heads of queries for each of keys; 0: 1 */
    float scale, cap;                    /* cap 0: none; else scale has the factor 2 / cap */
    int64_t left, right;                 /* the window; 0: none */
    const struct tfm__attention *memory; /* keys and values of the same softmax, after its own */
    const tfm_masks *masks;              /* may be NULL */
    const int32_t *firsts;               /* [B]: key position of query 0 in a step; NULL: 0 */
    const float *bias; /* [h * bias_head + d] is added to the scores of head h at distance d,
                               the key's position less the query's; NULL: none */
    int64_t bias_head;
    /* The keys and values of batch row b are in row kv_rows[b] (NULL: b). With ancestries, those of
       position s are in row ancestry[b * ancestry_stride + s]. */
    const int32_t *kv_rows, *ancestry;
    int64_t ancestry_stride;
    tfm_weight_type tiles; /* type of packed keys and values, for tfm__attend_tiles, which needs the
                              keys of a sentence side by side; AS_STORED: tfm__attend_heads */
    float *scratch; /* [parts, scratch_size]: S floats or more, or tfm__attend_tile_scratch */
    int64_t scratch_size, parts;
} tfm__attention;

/* Returns the position of row b's first in the cache. firsts NULL: 0. */
static int64_t tfm__first_of(const int32_t *firsts, int64_t b) { return firsts ? firsts[b] : 0; }

/* Returns the head of keys and values that head h of queries reads. */
static int64_t tfm__attend_group(const tfm__attention *a, int64_t h) {
    return a->group > 1 ? h / a->group : h;
}

/* Returns how many keys query t of row b sees by length and causality. */
static int64_t tfm__attend_count_keys(const tfm__attention *a, int64_t b, int64_t t) {
    int64_t end = tfm__min(a->S, a->firsts ? a->firsts[b] + a->T : a->S);
    int64_t kv = a->kv_rows ? a->kv_rows[b] : b;
    if (a->masks && a->masks->key_lengths) end = tfm__min(end, a->masks->key_lengths[kv]);
    if (a->masks && a->masks->causal) end = tfm__min(end, tfm__first_of(a->firsts, b) + t + 1);
    return end;
}

/* Returns the first key that query t of row b sees, and sets *end to the end of those it sees. */
static int64_t tfm__attend_window(const tfm__attention *a, int64_t b, int64_t t, int64_t *end) {
    int64_t at = tfm__first_of(a->firsts, b) + t + 1;
    *end = tfm__attend_count_keys(a, b, t);
    if (!a->left) return 0;
    *end = tfm__min(*end, at - 1 + a->right);
    return tfm__min(*end, tfm__max(0, at - a->left));
}

/* Computes cap * tanh(score / cap) + cap. A number that is added to all scores changes no softmax.
   The scores have been divided by cap / 2. */
static void tfm__attend_cap(const tfm__attention *a, float *scores, int64_t n) {
    if (a->cap == 0) return;
    a->kernels->activate(scores, n, (tfm_activation)TFM__SIGMOID);
    a->kernels->scale(scores, 2 * a->cap, n);
}

/* Adds relative positions to the scores of a query's n keys from `first` on, then hides keys by the
   other masks: pads, which belong to the row of the keys, and the attention mask. */
static void tfm__attend_mask(const tfm__attention *a, int64_t b, int64_t h, int64_t t,
                             float *scores, int64_t first, int64_t n) {
    const tfm_masks *m = a->masks;
    const unsigned char *pads, *hidden;
    int64_t kv = a->kv_rows ? a->kv_rows[b] : b, s;
    if (a->bias)
        a->kernels->add(scores,
                        a->bias + h * a->bias_head + first - tfm__first_of(a->firsts, b) - t, n);
    if (!m || (!m->key_padding.data && !m->attention.data)) return;
    pads = (const unsigned char *)m->key_padding.data;
    if (pads) pads += kv * m->key_padding.strides[0] + first;
    hidden = (const unsigned char *)m->attention.data;
    if (hidden) {
        const tfm_tensor *mask = &m->attention;
        hidden += t * mask->strides[mask->rank - 2] + first;
        if (mask->rank == 3)
            hidden += (mask->dims[0] == a->B ? b : b * a->H + h) * mask->strides[0];
    }
    for (s = 0; s < n; s++)
        if ((pads && pads[s]) || (hidden && hidden[s])) scores[s] = -INFINITY;
}

/* Returns the end, at most n, of the positions from s on whose keys and values are in one row, and
   sets *row to it. */
static int64_t tfm__attend_next_run(const int32_t *path, int64_t s, int64_t n, int64_t *row) {
    if (!path) return n;
    *row = path[s];
    do s++;
    while (s < n && path[s] == *row);
    return s;
}

/* Copies a query's weights of keys begin to end - 1 to the caller, if wanted, and zeros for others.
   Those of a listed head go to its place in the list. */
static void tfm__attend_store_weights(const tfm__attention *a, int64_t b, int64_t h, int64_t t,
                                      const float *weights, int64_t begin, int64_t end) {
    int32_t i = 0;
    float *to;
    if (!a->weights.data) return;
    for (; a->listed; i++) {
        if (i == a->n_listed) return;
        if (a->listed[2 * i] == a->layer && a->listed[2 * i + 1] == h) break;
    }
    to = tfm__head_row(&a->weights, b, a->listed ? i : h, t);
    memset(to, 0, (size_t)begin * sizeof *to);
    memcpy(to + begin, weights, (size_t)(end - begin) * sizeof *to);
    memset(to + end, 0, (size_t)(a->S - end) * sizeof *to);
}

/* Prefetches n rows of a head from position s on, because a step reads each row once. This is a
   macro, because GCC drops calls of a function that only prefetches. */
#define TFM__PREFETCH_ROWS(heads, b, h, s, n, width)                                               \
    do {                                                                                           \
        const int64_t tfm__bytes = (width) * ((heads)->is_f16 ? 2 : 4);                            \
        int64_t tfm__s, tfm__k;                                                                    \
        for (tfm__s = 0; tfm__s < (n); tfm__s++)                                                   \
            for (tfm__k = 0; tfm__k < tfm__bytes; tfm__k += 64)                                    \
                TFM__PREFETCH((char *)tfm__head_at(heads, b, h, (s) + tfm__s) + tfm__k);           \
    } while (0)

/* A few queries that read a block of keys or values together, which then stays in the cache. Of the
   two sources of keys and values, 0 is the target or the only one, 1 the memory in its softmax. */
enum { TFM__TOGETHER = 8 };
typedef struct tfm__queries {
    int64_t n, rows[TFM__TOGETHER], heads[TFM__TOGETHER], positions[TFM__TOGETHER];
    int64_t begins[2][TFM__TOGETHER], ends[2][TFM__TOGETHER]; /* the keys that it sees */
    float *scores[2][TFM__TOGETHER];                          /* of these keys */
} tfm__queries;

/* Computes the scores of queries, or adds the values that their weights choose to the contexts. In
   a step, a block is computed while the next block is read from memory. */
static void tfm__attend_blocks(const tfm__attention *a, const tfm__queries *q, int of_values) {
    enum { BLOCK = 64 };
    const int64_t g = tfm__attend_group(a, q->heads[0]), after = q->heads[q->n - 1] + of_values;
    const int64_t next = tfm__attend_group(a, after);
    int source;
    for (source = 0; a; a = a->memory, source++) {
        const int64_t *begins = q->begins[source], *ends = q->ends[source], b = q->rows[0];
        const int32_t *path = a->ancestry ? a->ancestry + b * a->ancestry_stride : NULL;
        const tfm__heads *x = of_values ? &a->v : &a->k, *ahead = of_values ? &a->k : &a->v;
        int64_t s, end, i, row = a->kv_rows ? a->kv_rows[b] : b;
        for (s = begins[0]; s < ends[q->n - 1]; s = end) {
            end = tfm__attend_next_run(path, s, tfm__min(ends[q->n - 1], s + BLOCK), &row);
            if (a->T == 1 && after < a->H)
                TFM__PREFETCH_ROWS(ahead, row, next, s, end - s, of_values ? a->K : a->W);
            for (i = 0; i < q->n; i++) {
                int64_t from = tfm__max(s, begins[i]), n = tfm__min(ends[i], end) - from;
                int64_t at = q->rows[i], h = q->heads[i], t = q->positions[i];
                float *scores = q->scores[source][i] + (from - begins[i]);
                void *rows = tfm__head_at(x, row, g, from);
                if (n < 1) continue;
                if (of_values)
                    a->kernels->weighted_sum(tfm__head_row(&a->context, at, h, t), scores, rows,
                                             x->t, n, a->W, x->is_f16);
                else
                    a->kernels->dots(scores, tfm__head_row(&a->q, at, h, t), rows, x->t, n, a->K,
                                     x->is_f16);
            }
        }
    }
}

/* Computes pairs of a head and a batch row from number `first` on: scores, masks, softmax, weighted
   sum of the values. Pair i is head i / B of row b + i % B. All read the same keys and values: more
   than one in a step alone, of B hypotheses of a sentence and the heads of a group. scores has room
   for the scores of each of TFM__TOGETHER queries, or of one. */
static void tfm__attend_heads(const tfm__attention *a, int64_t b, int64_t B, int64_t first,
                              int64_t pairs, float *scores) {
    const tfm__attention *m, *memory = a->memory;
    const tfm__kernels *kernels = a->kernels;
    const int64_t queries = a->T * pairs, room = a->S + (memory ? memory->S : 0);
    int64_t t, i, n, row = first % B, head = first / B, position = 0;
    tfm__queries q;
    int k;
    for (t = 0; t < queries; t += q.n) {
        q.n = tfm__min(tfm__min(TFM__TOGETHER, queries - t),
                       tfm__max(1, a->scratch_size / tfm__max(1, room)));
        for (i = 0; i < q.n; i++) {
            float *x = scores + i * room;
            q.rows[i] = b + row, q.heads[i] = head, q.positions[i] = position++;
            if (position == a->T) position = 0, row++;
            if (row == B) row = 0, head++;
            for (m = a, k = 0; m; m = m->memory, k++) {
                q.scores[k][i] = x;
                q.begins[k][i] = tfm__attend_window(m, q.rows[i], q.positions[i], &q.ends[k][i]);
                x += q.ends[k][i] - q.begins[k][i];
            }
        }
        tfm__attend_blocks(a, &q, 0);
        for (i = 0; i < q.n; i++) {
            float *x = q.scores[0][i];
            const int64_t h = q.heads[i];
            for (m = a, k = 0, n = 0; m; m = m->memory, k++) n += q.ends[k][i] - q.begins[k][i];
            TFM__COUNT(2 * n * (a->K + a->W));
            kernels->scale(x, a->scale, n);
            tfm__attend_cap(a, x, n);
            for (m = a, k = 0; m; m = m->memory, k++)
                tfm__attend_mask(m, q.rows[i], h, q.positions[i], q.scores[k][i], q.begins[k][i],
                                 q.ends[k][i] - q.begins[k][i]);
            tfm__softmax_row(kernels, x, x, n);
            for (m = a, k = 0; m; m = m->memory, k++)
                tfm__attend_store_weights(m, q.rows[i], h, q.positions[i], q.scores[k][i],
                                          q.begins[k][i], q.ends[k][i]);
            memset(tfm__head_row(&a->context, q.rows[i], h, q.positions[i]), 0,
                   (size_t)a->W * sizeof *x);
        }
        tfm__attend_blocks(a, &q, 1);
    }
}

/* A block of tfm__attend_tiles: this many queries by this many keys, counted from position 0. */
enum { TFM__QUERIES = 24, TFM__QUERIES_BF16 = TFM__MOST_ROWS, TFM__KEYS = 256 };

/* Returns the floats of scratch of tfm__attend_tiles: the scores of a block, a head's packed keys
   and values, and for bf16 the converted queries and weights of a block (packing uses the same room
   before). */
static int64_t tfm__attend_tile_scratch(tfm_weight_type type, int64_t S, int64_t K, int64_t W) {
    int64_t n, rows = TFM__MOST_ROWS; /* of X_STRIDE bytes */
    /* A size that fits no arena, but does fit integers, stands in for all larger ones. */
    if (!tfm__mul(S + TFM__PANEL, K + W + TFM__PANEL, &n) || n > INT64_MAX / 128)
        return INT64_MAX / 128;
    if (type == TFM_WEIGHT_TYPE_BF16)
        rows += TFM__MOST_ROWS * (1 + tfm__packed_blocks(2 * tfm__max(K, W)));
    n = tfm__packed_bytes(type, S, K) + tfm__packed_bytes(type, W, S);
    return (n + rows * TFM__X_STRIDE) / 4;
}

/* Returns keys or values as a product's weights. They will be packed at *at, which moves on. */
static tfm__linear tfm__attend_map(tfm_weight_type type, int64_t rows, int64_t columns,
                                   float **at) {
    tfm__linear map;
    memset(&map, 0, sizeof map);
    map.w.type = type;
    map.w.rows = rows;
    map.w.columns = columns;
    map.w.data = (unsigned char *)*at;
    *at += tfm__packed_bytes(type, rows, columns) / 4;
    return map;
}

/* Some queries of a head, on which tfm__attend_tiles works together. */
typedef struct tfm__attend_tile {
    const tfm__attention *a;
    int64_t b, h, t, n;           /* queries t to t + n - 1 of head h in batch row b */
    tfm__rows scores;             /* [n, TFM__KEYS]: of a block of keys, then their weights */
    tfm__rows context;            /* [n, W]: the sum of weights * values so far */
    float maxima[TFM__MOST_ROWS]; /* the largest score of each query so far */
    double sums[TFM__MOST_ROWS];  /* the sum of its weights exp(score - maximum) so far */
} tfm__attend_tile;

static void tfm__attend_begin(tfm__attend_tile *tile) {
    const tfm__attention *a = tile->a;
    int64_t i;
    for (i = 0; i < tile->n; i++) {
        tile->maxima[i] = -INFINITY, tile->sums[i] = 0;
        if (!a->left) continue; /* a window may begin after the first block, or see nothing */
        memset(tfm__row(&tile->context, 0, i), 0, (size_t)a->W * sizeof(float));
        if (a->weights.data)
            memset(tfm__head_row(&a->weights, tile->b, tile->h, tile->t + i), 0,
                   (size_t)a->S * sizeof(float));
    }
}

/* Masks the scores that query i has of n keys from key s on, and finds its largest score so far. If
   that grows, what was computed with earlier keys shrinks. */
static void tfm__attend_maximum(tfm__attend_tile *tile, int64_t i, int64_t s, int64_t n) {
    const tfm__attention *a = tile->a;
    const int64_t b = tile->b, h = tile->h, t = tile->t + i;
    float *scores = tfm__row(&tile->scores, 0, i), largest, factor;
    int64_t k, begin, end;
    tfm__attend_cap(a, scores, n);
    tfm__attend_mask(a, b, h, t, scores, s, n);
    if (a->left) {
        begin = tfm__attend_window(a, b, t, &end);
        for (k = s; k < s + n; k++)
            if (k < begin || k >= end) scores[k - s] = -INFINITY;
    }
    largest = a->kernels->largest(scores, n);
    if (!(largest > tile->maxima[i])) return;
    if (s) {
        factor = (float)a->kernels->exp_sum(NULL, &tile->maxima[i], largest, 1);
        a->kernels->scale(tfm__row(&tile->context, 0, i), factor, a->W);
        if (a->weights.data) a->kernels->scale(tfm__head_row(&a->weights, b, h, t), factor, s);
        tile->sums[i] *= (double)factor;
    }
    tile->maxima[i] = largest;
}

/* Turns the scores of n keys from key s on into weights, which the caller gets if it wants them. */
static void tfm__attend_weigh(tfm__attend_tile *tile, int64_t s, int64_t n) {
    const tfm__attention *a = tile->a;
    int64_t i;
    for (i = 0; i < tile->n; i++) tfm__attend_maximum(tile, i, s, n);
    for (i = 0; i < tile->n; i++) {
        float *x = tfm__row(&tile->scores, 0, i), max = tile->maxima[i];
        tile->sums[i] += a->kernels->exp_sum(x, x, max == -INFINITY ? 0.0f : max, n);
    }
    for (i = 0; a->weights.data && i < tile->n; i++)
        memcpy(tfm__head_row(&a->weights, tile->b, tile->h, tile->t + i) + s,
               tfm__row(&tile->scores, 0, i), (size_t)n * sizeof(float));
}

/* Divides contexts and weights of the first n keys by the sums of the weights. */
static void tfm__attend_end(const tfm__attend_tile *tile, int64_t n) {
    const tfm__attention *a = tile->a;
    int64_t i;
    for (i = 0; i < tile->n; i++) {
        float factor = tile->sums[i] != 0 ? (float)(1 / tile->sums[i]) : 1.0f, *weights;
        a->kernels->scale(tfm__row(&tile->context, 0, i), factor, a->W);
        if (!a->weights.data) continue;
        weights = tfm__head_row(&a->weights, tile->b, tile->h, tile->t + i);
        a->kernels->scale(weights, factor, n);
        memset(weights + n, 0, (size_t)(a->S - n) * sizeof(float));
    }
}

/* Computes what tfm__attend_heads computes, block by block with tiles, if all queries see the same
   keys up to a length. Steps never use it, so a decoder's pass does not either: both have the same
   bits. packs 0: the scratch has the keys and values of the group from the head before.

   The scratch of a thread, tfm__attend_tile_scratch floats:
     TFM__MOST_ROWS rows of TFM__X_STRIDE bytes, so far apart as tiles read rows:
         F32, up to TFM__KEYS columns   | scores of a block of keys, then weights | the query |
         BF16, or more columns          | scores of a block of keys, then weights |
     the packed keys [n, K] and the packed values [W, n]
     BF16: such rows with the weights as bf16, and such rows with the queries as bf16 */
static void tfm__attend_tiles(const tfm__attention *a, int64_t b, int64_t h, int packs,
                              float *scratch) {
    enum { STRIDE = TFM__X_STRIDE / 4 };
    const tfm__kernels *kernels = a->kernels;
    const int is_bf16 = a->tiles == TFM_WEIGHT_TYPE_BF16, is_wide = a->K > TFM__KEYS;
    const int64_t n = tfm__attend_count_keys(a, b, 0), g = tfm__attend_group(a, h);
    const int64_t most = is_bf16 ? TFM__QUERIES_BF16 : TFM__QUERIES;
    float *room = scratch + (int)TFM__MOST_ROWS * STRIDE;
    tfm__linear key_map = tfm__attend_map(a->tiles, n, a->K, &room);
    tfm__linear value_map = tfm__attend_map(a->tiles, a->W, n, &room);
    const float *k = tfm__head_row(&a->k, b, g, 0), *v = tfm__head_row(&a->v, b, g, 0);
    tfm__attend_tile tile;
    int64_t t, s, i, begin, end;
    if (packs) tfm__packed_set_keys(&key_map.w, k, a->k.t, a->scale, kernels, room);
    if (packs) tfm__packed_set_values(&value_map.w, v, a->v.t, kernels, room);
    tile.a = a, tile.b = b, tile.h = h;
    for (t = 0; t < a->T; t += tile.n) {
        tfm__rows q = tfm__rows_of_head(&a->q, b, h, t, tfm__min(most, a->T - t), a->K);
        tfm__rows scores = {scratch, 1, q.L, TFM__KEYS, 0, STRIDE};
        tfm__rows context = tfm__rows_of_head(&a->context, b, h, t, q.L, a->W);
        tfm__product of_keys = tfm__product_make(&scores, &q, &key_map);
        tfm__product of_values = tfm__product_make(&context, &scores, &value_map);
        of_values.converted = (unsigned char *)scratch;
        if (is_bf16) {
            of_values.converted = (unsigned char *)room;
            of_keys.converted = of_values.converted + (int)TFM__MOST_ROWS * TFM__X_STRIDE;
            of_keys.converted_block = TFM__MOST_ROWS * (int64_t)TFM__X_STRIDE;
            tfm__product_convert(kernels, &of_keys, 0, q.L);
        } else if (!is_wide) {
            of_keys.converted = (unsigned char *)(scratch + (int)TFM__KEYS);
            for (i = 0; i < q.L; i++)
                memcpy(scratch + i * STRIDE + (int)TFM__KEYS, tfm__row(&q, 0, i),
                       (size_t)a->K * sizeof *scratch);
        }
        tile.t = t, tile.n = q.L, tile.scores = scores, tile.context = context;
        tfm__attend_begin(&tile);
        begin = tfm__attend_window(a, b, t, &end);
        (void)tfm__attend_window(a, b, t + q.L - 1, &end);
        for (s = begin - begin % TFM__KEYS; s < end; s += TFM__KEYS) {
            of_keys.first = s;
            of_keys.y.D = of_values.x.D = tfm__min(TFM__KEYS, n - s);
            if (is_bf16 || is_wide) tfm__product_packed(kernels, &of_keys);
            else tfm__product_chunk(kernels, &of_keys, 0, a->K);
            tfm__attend_weigh(&tile, s, of_keys.y.D);
            if (is_bf16) tfm__product_convert(kernels, &of_values, 0, q.L);
            tfm__product_chunk(kernels, &of_values, s, TFM__KEYS);
        }
        tfm__attend_end(&tile, n);
        TFM__COUNT(2 * q.L * (end - begin) * (a->K + a->W));
    }
}

/* Returns whether two rows of a step are hypotheses that read the same keys and values. */
static int tfm__attend_shares(const tfm__attention *a, int64_t b, int64_t other) {
    return other >= 0 && other < a->B && a->T == 1 && a->kv_rows && !a->ancestry &&
           a->kv_rows[b] == a->kv_rows[other];
}

/* Computes a share of all heads. Rows and heads that share keys and values are side by side. */
static void tfm__attend_part(void *context, int32_t part) {
    const tfm__attention *a = (const tfm__attention *)context;
    int64_t all = a->B * a->H, i = part * all / a->parts, end = (part + 1) * all / a->parts;
    int64_t b, n, at, pairs, begin = i, group = tfm__max(1, a->group), together;
    float *scratch = a->scratch + part * a->scratch_size;
    int causal = a->masks && a->masks->causal;
    for (; i < end; i += pairs) {
        for (b = i / a->H; tfm__attend_shares(a, b, b - 1);) b--;
        for (n = 1; tfm__attend_shares(a, b, b + n);) n++;
        at = i - b * a->H;
        together = a->T == 1 ? n * group : n;
        pairs = tfm__min(together - at % together, end - i);
        if (a->tiles && !causal && tfm__attend_count_keys(a, b, 0) > 0) {
            pairs = 1; /* here n is 1 */
            tfm__attend_tiles(a, b, at, i == begin || at % group == 0, scratch);
        } else tfm__attend_heads(a, b, n, at, pairs, scratch);
    }
}

/* Computes an attention, and sets its kernels, parts and, if it is too small, scratch_size. */
static void tfm__attend_run(const tfm__team *team, tfm__attention *a) {
    a->kernels = team->kernels, a->parts = 1, a->scratch_size = tfm__max(a->scratch_size, a->S);
    if (a->tiles) a->scratch_size = tfm__attend_tile_scratch(a->tiles, a->S, a->K, a->W);
    if (tfm__team_shares(team, 2 * a->B * a->H * a->T * a->S * (a->K + a->W)))
        a->parts = tfm__min(team->n, a->B * a->H);
    tfm__team_run(team, tfm__attend_part, a, (int32_t)a->parts);
}

/* Returns 1/sqrt(K), unless the caller has another scale. */
static float tfm__attend_scale(double scale, int64_t K) {
    return (float)(scale != 0 ? scale : 1 / sqrt((double)K));
}

TFM_DEF tfm_status tfm_scaled_dot_product_attention(tfm_tensor *context, tfm_tensor *weights,
                                                    const tfm_attention_inputs *inputs,
                                                    double scale, tfm_arena *scratch,
                                                    tfm_error *err) {
    const tfm_tensor *query, *key, *value;
    tfm__team team = tfm__team_alone();
    tfm__attention a;
    tfm_tensor expected;
    tfm_arena all;
    int r;
    memset(&a, 0, sizeof a);
    if (!inputs || !scratch) return tfm__fail(err, TFM_E_ARGUMENT, "inputs or scratch is NULL");
    query = inputs->query, key = inputs->key, value = inputs->value;
    TFM__TRY(tfm__check_tensor(query, "query", TFM_DTYPE_F32, 3, 4, err));
    r = query->rank;
    TFM__TRY(tfm__check_tensor(key, "key", TFM_DTYPE_F32, r, r, err));
    a.B = query->dims[0];
    a.H = r == 4 ? query->dims[1] : 1;
    a.T = query->dims[r - 2];
    a.K = query->dims[r - 1];
    expected = *query;
    a.S = expected.dims[r - 2] = key->dims[r - 2];
    TFM__TRY(tfm__check_shape(key, "key", expected, err));
    TFM__TRY(tfm__check_tensor(value, "value", TFM_DTYPE_F32, r, r, err));
    a.W = expected.dims[r - 1] = value->dims[r - 1];
    TFM__TRY(tfm__check_shape(value, "value", expected, err));
    expected.dims[r - 2] = a.T;
    TFM__TRY(tfm__check_shape(context, "context", expected, err));
    expected.dims[r - 1] = a.S;
    TFM__TRY(tfm__check_optional(weights, "weights", expected, err));
    TFM__TRY(tfm__masks_check(inputs->masks, a.B, a.H, a.T, a.S, err));
    all = tfm__scratch_begin(scratch);
    TFM__TRY(TFM__TAKE(&all, a.S, 1, &a.scratch, err));
    TFM__TRY(tfm__scratch_end(scratch, &all, err));
    if (scratch->measuring) return TFM_OK;
    a.q = tfm__heads_of_tensor(query);
    a.k = tfm__heads_of_tensor(key);
    a.v = tfm__heads_of_tensor(value);
    a.context = tfm__heads_of_tensor(context);
    a.weights = tfm__heads_of_tensor(weights);
    a.scale = tfm__attend_scale(scale, a.K);
    a.masks = inputs->masks;
    tfm__attend_run(&team, &a);
    return TFM_OK;
}

/* ---- projections, keys and values, a pass ---- */

TFM_DEF tfm_status tfm_attention_unpack(tfm_attention_weights *weights,
                                        const tfm_tensor *in_proj_weight,
                                        const tfm_tensor *in_proj_bias, tfm_error *err) {
    tfm_linear_weights *parts[3];
    int64_t E;
    int i;
    if (!weights) return tfm__fail(err, TFM_E_ARGUMENT, "weights is NULL");
    TFM__TRY(tfm__check_tensor(in_proj_weight, "in_proj_weight", TFM_DTYPE_F32, 2, 2, err));
    E = in_proj_weight->dims[0] / 3;
    if (in_proj_weight->dims[0] % 3)
        return tfm__fail(err, TFM_E_SHAPE,
                         "in_proj_weight is %t: %i rows are not three equal parts", in_proj_weight,
                         in_proj_weight->dims[0]);
    TFM__TRY(tfm__check_vector(in_proj_bias, "in_proj_bias", "", 3 * E, err));
    parts[0] = &weights->query, parts[1] = &weights->key, parts[2] = &weights->value;
    for (i = 0; i < 3; i++) {
        parts[i]->weight = *in_proj_weight;
        parts[i]->weight.dims[0] = E;
        parts[i]->weight.data = (float *)in_proj_weight->data + i * E * in_proj_weight->strides[0];
        parts[i]->bias = tfm_tensor_1d(NULL, TFM_DTYPE_F32, E);
        if (in_proj_bias && in_proj_bias->data)
            parts[i]->bias.data = (float *)in_proj_bias->data + i * E;
    }
    return TFM_OK;
}

/* Rotary positions. A table's row has, for each set of frequencies, n cosines, then n sines. */
typedef struct tfm__rotary {
    const float *frequencies; /* [n]; NULL: none */
    int64_t n, first;         /* columns of the table before its own */
    int interleaved;
    const struct tfm__rotary *next; /* of a model's, which differ; NULL: the last */
} tfm__rotary;

/* Writes cosines and sines for n positions from first on. Angles round to float like PyTorch's. */
static void tfm__rotary_rows(const tfm__rotary *r, int64_t first, int64_t n, float *table,
                             int64_t columns) {
    int64_t l, i;
    for (l = 0; l < n; l++)
        for (i = 0; i < r->n; i++) {
            double angle = (double)((float)(first + l) * r->frequencies[i]);
            float *to = table + l * columns + r->first + i;
            to[0] = (float)tfm__sine(angle, 1), to[r->n] = (float)tfm__sine(angle, 0);
        }
}

static tfm_status tfm__rotary_check(const tfm__rotary *r, const char *name, int64_t K,
                                    tfm_status status, tfm_error *err) {
    int64_t i;
    if (r->frequencies && 2 * r->n > K)
        return tfm__fail(err, status, "%s turns %i columns, but heads have %i", name, 2 * r->n, K);
    for (i = 0; r->frequencies && i < r->n; i++)
        if (!(r->frequencies[i] >= 0 && r->frequencies[i] <= 1000))
            return tfm__fail(err, status, "%s: number %i is not from 0 to 1000", name, i);
    return TFM_OK;
}

static tfm_status tfm__rotary_view(const tfm_rotary_positions *w, const char *name, int64_t K,
                                   tfm__rotary *view, tfm_error *err) {
    char all[64];
    memset(view, 0, sizeof *view);
    if (!w->frequencies.data) return TFM_OK;
    tfm__format(all, sizeof all, "%s rotary.frequencies", name);
    TFM__TRY(tfm__check_tensor(&w->frequencies, all, TFM_DTYPE_F32, 1, 1, err));
    view->frequencies = (const float *)w->frequencies.data;
    view->n = w->frequencies.dims[0], view->interleaved = w->interleaved;
    return tfm__rotary_check(view, all, K, TFM_E_ARGUMENT, err);
}

/* Rows of heads, which threads share: their norm, then their rotary positions. */
typedef struct tfm__turn {
    tfm__rows x; /* [B, L, heads * K] */
    int64_t K;
    const tfm_norm_weights *norm; /* NULL: none */
    const tfm__rotary *rotary;    /* NULL: none */
    const float *table;           /* [positions, columns] */
    int64_t columns;
    const int32_t *firsts; /* [B]: position of a row's first in the table; NULL: 0 */
    const tfm__kernels *kernels;
    int32_t parts;
} tfm__turn;

static void tfm__turn_part(void *context, int32_t part) {
    const tfm__turn *a = (const tfm__turn *)context;
    int64_t M = a->x.B * a->x.L, i = part * M / a->parts, end = (part + 1) * M / a->parts, k, h;
    for (; i < end; i++) {
        int64_t b = i / a->x.L, l = i % a->x.L, p = tfm__first_of(a->firsts, b) + l;
        float *row = tfm__row(&a->x, b, l);
        if (a->norm) a->kernels->norm(row, a->K, row, a->K, a->x.D / a->K, a->K, a->norm);
        for (h = 0; a->rotary && h < a->x.D; h += a->K) {
            const int64_t n = a->rotary->n;
            const float *c = a->table + p * a->columns + a->rotary->first, *s = c + n;
            for (k = 0; k < n; k++) {
                float *x = row + h + (a->rotary->interleaved ? 2 * k : k);
                float *y = x + (a->rotary->interleaved ? 1 : n), even = *x;
                *x = even * c[k] - *y * s[k];
                *y = *y * c[k] + even * s[k];
            }
        }
    }
}

static void tfm__turn_run(const tfm__team *team, tfm__turn *a) {
    a->kernels = team->kernels, a->parts = 1;
    if (tfm__team_shares(team, TFM__NORM_COST * a->x.B * a->x.L * a->x.D)) a->parts = team->n;
    tfm__team_run(team, tfm__turn_part, a, a->parts);
}

TFM_DEF tfm_status tfm_rotary(tfm_tensor *out, const tfm_tensor *x,
                              const tfm_rotary_positions *rotary, int32_t n_heads, int64_t first,
                              tfm_arena *scratch, tfm_error *err) {
    tfm__team team = tfm__team_alone();
    tfm__rows from;
    tfm__rotary r;
    tfm__turn turn;
    tfm_arena all;
    float *table;
    memset(&turn, 0, sizeof turn);
    TFM__TRY(tfm__view(x, "x", 3, 3, &from, err));
    TFM__TRY(tfm__view_like(out, "out", *x, &turn.x, err));
    if (!rotary || !rotary->frequencies.data || !scratch)
        return tfm__fail(err, TFM_E_ARGUMENT, "rotary, its frequencies or scratch is NULL");
    if (n_heads < 1 || from.D % n_heads || first < 0 || first > INT32_MAX - from.L)
        return tfm__fail(err, TFM_E_ARGUMENT,
                         "n_heads is %d and first %i: expected a divisor of %i columns, and 0 to "
                         "2147483647 less %i rows",
                         n_heads, first, from.D, from.L);
    turn.K = from.D / n_heads;
    TFM__TRY(tfm__rotary_view(rotary, "x", turn.K, &r, err));
    all = tfm__scratch_begin(scratch);
    TFM__TRY(TFM__TAKE(&all, from.L, 2 * r.n, &table, err));
    TFM__TRY(tfm__scratch_end(scratch, &all, err));
    if (scratch->measuring) return TFM_OK;
    turn.table = table, turn.columns = 2 * r.n, turn.rotary = &r;
    tfm__rotary_rows(&r, first, from.L, table, turn.columns);
    tfm__copy_rows(&turn.x, &from);
    tfm__turn_run(&team, &turn);
    return TFM_OK;
}

/* The projections of an attention as the products see them. */
typedef struct tfm__projections {
    tfm__linear query, key, value, out;
    int has_out;
    int is_merged;         /* of self-attention: the memory has a part in its softmax */
    int32_t n_heads, n_kv; /* of queries, and of keys and values */
    int64_t K, W;          /* of a head */
    double scale;          /* 0 means 1/sqrt(K) */
    tfm__relative relative;
    tfm__rotary rotary;
    tfm_norm_weights query_norm, key_norm; /* without data: none */
    int32_t left, right;                   /* the window; 0: none */
    double cap;                            /* of scores; 0: none */
} tfm__projections;

/* Returns the columns of all contexts. */
static int64_t tfm__contexts_width(const tfm__projections *w) { return w->n_heads * w->W; }

/* Views an attention for inputs of these widths. It must return width columns; -1: any number. */
static tfm_status tfm__projections_view(const tfm_attention_weights *w, const char *name,
                                        int64_t q_in, int64_t k_in, int64_t v_in, int64_t width,
                                        tfm__projections *view, tfm_error *err) {
    int64_t HK, HW, GK, GW;
    memset(view, 0, sizeof *view);
    if (w->n_heads < 1)
        return tfm__fail(err, TFM_E_ARGUMENT, "%s: n_heads is %i, expected 1 or more", name,
                         (int64_t)w->n_heads);
    TFM__TRY(tfm__linear_view(&w->query, name, " query", -1, q_in, &view->query, err));
    HK = view->query.w.rows;
    TFM__TRY(tfm__linear_view(&w->key, name, " key", -1, k_in, &view->key, err));
    TFM__TRY(tfm__linear_view(&w->value, name, " value", -1, v_in, &view->value, err));
    GK = view->key.w.rows, GW = view->value.w.rows;
    view->n_heads = w->n_heads;
    view->scale = w->scale;
    view->K = HK / w->n_heads;
    view->n_kv = view->K && GK % view->K == 0 ? (int32_t)tfm__min(GK / view->K, HK) : 0;
    if (HK < 1 || HK % w->n_heads || (view->n_kv && (GW < 1 || GW % view->n_kv)))
        return tfm__fail(err, TFM_E_SHAPE, "%s: %i and %i columns do not divide into %d heads",
                         name, HK, GW, HK < 1 || HK % w->n_heads ? w->n_heads : view->n_kv);
    if (view->n_kv < 1 || w->n_heads % view->n_kv)
        return tfm__fail(err, TFM_E_SHAPE,
                         "%s key.weight is %t, expected %i rows, or for groups of heads %i for "
                         "each of a number that divides %d",
                         name, &w->key.weight, HK, view->K, w->n_heads);
    view->W = GW / view->n_kv;
    HW = tfm__contexts_width(view);
    TFM__TRY(tfm__relative_view(&w->relative, name, w->n_heads, &view->relative, err));
    TFM__TRY(tfm__rotary_view(&w->rotary, name, view->K, &view->rotary, err));
    view->query_norm = w->query_norm, view->key_norm = w->key_norm;
    TFM__TRY(tfm__norm_check(&w->query_norm, "query_norm", view->K, err));
    TFM__TRY(tfm__norm_check(&w->key_norm, "key_norm", view->K, err));
    view->left = w->left, view->right = w->right, view->cap = w->cap;
    if (w->left < 0 || w->right < 0 || !w->left != !w->right || !(w->cap >= 0))
        return tfm__fail(
            err, TFM_E_ARGUMENT,
            "%s: left is %d and right %d, or cap is negative or no number: expected 1 or "
            "more, or 0 for none, of left and right together",
            name, w->left, w->right);
    view->has_out = w->out.weight.data != NULL;
    if (view->has_out) return tfm__linear_view(&w->out, name, " out", width, HW, &view->out, err);
    if (width < 0 || width == HW) return TFM_OK;
    return tfm__fail(err, TFM_E_SHAPE, "%s gives %i columns, expected %i", name, HW, width);
}

/* Keys and values of some positions: rows of capacity positions each. */
typedef struct tfm__kv {
    void *k, *v;  /* [rows, capacity, G*K] and [rows, capacity, G*W]; an SSRU's states [rows, slots,
                         D] are in k */
    int by_heads; /* 1: they are [rows, G, capacity, K] and [rows, G, capacity, W] instead, which
                         a step reads in order */
    int is_f16;   /* 1: elements are F16, by heads; 0: floats */
    int64_t capacity; /* positions that a row has room for */
    int64_t slots;    /* of an SSRU: the state after position t is in slot t % slots, so the last
                         `slots` positions can be undone */
} tfm__kv;

/* Returns the keys or values of a cache as heads of that width. */
static tfm__heads tfm__heads_of_cache(const tfm__kv *kv, void *data, int64_t H, int64_t width) {
    tfm__heads by_rows = {data, kv->capacity * H * width, width, H * width, 0};
    tfm__heads by_heads = {data, kv->capacity * H * width, kv->capacity * width, width, kv->is_f16};
    return kv->by_heads ? by_heads : by_rows;
}

/* Scratch that all layers use in turn. M: B*L rows of the residual stream. */
typedef struct tfm__work {
    float *q;              /* [M, H*K] */
    float *context;        /* [M, H*W] */
    float *k, *v;          /* [key rows, H*K], [key rows, H*W] */
    float *scores;         /* [team, S], or for tiles [team, tfm__attend_tile_scratch] */
    int64_t scores_size;   /* floats of a thread, if there are more */
    tfm_weight_type tiles; /* of an encoder, as in tfm__attention */
    float *y;              /* [M, D]: what a sub-layer adds */
    float *n;              /* [M, D]: the normalized input of a pre-norm sub-layer */
    float *hidden;         /* [M, F] */
    const tfm__team *team; /* who computes */
} tfm__work;

/* The widths that this scratch is for. */
typedef struct tfm__sizes {
    int64_t M, D, HK, HW, F, key_rows, scores;
    int64_t K, W; /* of a head */
} tfm__sizes;

/* Allocates all scratch before the first layer runs, so the computation cannot fail halfway. */
static tfm_status tfm__work_alloc(tfm_arena *arena, const tfm__sizes *z, tfm__work *w,
                                  tfm_error *err) {
    TFM__TRY(TFM__TAKE(arena, z->M, z->HK, &w->q, err));
    TFM__TRY(TFM__TAKE(arena, z->M, z->HW, &w->context, err));
    TFM__TRY(TFM__TAKE(arena, z->key_rows, z->HK, &w->k, err));
    TFM__TRY(TFM__TAKE(arena, z->key_rows, z->HW, &w->v, err));
    TFM__TRY(TFM__TAKE(arena, z->scores, 1, &w->scores, err));
    TFM__TRY(TFM__TAKE(arena, z->M, z->D, &w->y, err));
    TFM__TRY(TFM__TAKE(arena, z->M, z->D, &w->n, err));
    return TFM__TAKE(arena, z->M, z->F, &w->hidden, err);
}

/* The sub-layers of a layer, in order. */
enum { TFM__SELF, TFM__CROSS, TFM__FFN };

/* What the layers of one pass share. Arrays are by sub-layer: self-attention, cross-attention. */
typedef struct tfm__pass {
    tfm__rows x;            /* the residual stream [B, L, D], row-major */
    const int32_t *firsts;  /* [B]: position of a row's first in the cache, in a step; NULL: 0 */
    int64_t end;            /* the position after the last of all rows */
    const int32_t *lengths; /* [B]: positions of each row that count; NULL: L */
    int only_caches;        /* 1: fills the caches, and leaves the stream unfinished */
    int64_t S;              /* memory positions for cross-attention */
    tfm__rows memory; /* [B, S, .]: each layer makes its keys and values; no data: kv has them */
    const tfm_masks *masks[2];
    const tfm__kv *kv[2];           /* [layers]; NULL: scratch */
    const int32_t *kv_rows[2];      /* the cache row of each batch row; NULL: its number */
    const int32_t *ancestry;        /* of the hypotheses in a step; else NULL */
    const tfm_tensor *attention[2]; /* [layers, B, H, L, S]: weights to write; NULL: none */
    const int32_t *listed; /* [n_listed, 2]: layers and heads whose cross-attention is written, as
                              [n_listed, B, L, S]; NULL: all */
    int32_t n_listed;
    int64_t first_row; /* of the attention tensors: batch row 0 */
    const float *bias; /* [heads of all tables, 2 * reach - 1]: relative positions */
    int64_t reach;
    float *rotary; /* [positions, rotary_columns]: cosines and sines */
    int64_t rotary_columns;
    tfm__work work;
} tfm__pass;

/* Returns rows of D columns at data, one for each row of the stream. */
static tfm__rows tfm__rows_beside(const tfm__pass *p, float *data, int64_t D) {
    return tfm__rows_make(data, p->x.B, p->x.L, D);
}

/* Returns where the attention weights of layer i go, without data if they are not wanted. */
static tfm__heads tfm__pass_weights(const tfm__pass *p, int part, int32_t i) {
    const tfm_tensor *t = p->attention[part];
    tfm__heads to = {NULL, 0, 0, 0, 0};
    if (!t || !t->data) return to;
    to.data = (float *)t->data + p->first_row * t->strides[1];
    to.b = t->strides[1], to.h = t->strides[0], to.t = t->strides[2];
    if (part == TFM__CROSS && p->listed) return to;
    to.data = (float *)to.data + i * t->strides[0];
    to.h = t->strides[2], to.t = t->strides[3];
    return to;
}

/* Gives rows of queries or keys their norm and, if they are of the stream, rotary positions. */
static void tfm__pass_turn(const tfm__pass *p, const tfm__projections *w, const tfm__rows *rows,
                           const tfm_norm_weights *norm, int in_stream) {
    tfm__turn turn;
    memset(&turn, 0, sizeof turn);
    turn.x = *rows, turn.K = w->K;
    if (tfm__norm_exists(norm)) turn.norm = norm;
    if (in_stream && w->rotary.frequencies) turn.rotary = &w->rotary;
    if (!turn.norm && !turn.rotary) return;
    turn.table = p->rotary, turn.columns = p->rotary_columns, turn.firsts = p->firsts;
    TFM__PART(PROJECTIONS);
    tfm__turn_run(p->work.team, &turn);
}

/* Sets the source of keys and values of sub-layer part, and where their weights go. */
static void tfm__attend_source(const tfm__pass *p, const tfm__projections *w, int part,
                               const tfm__kv *kv, tfm__heads weights, tfm__attention *a) {
    a->S = part == TFM__SELF ? p->end : p->S;
    a->k = tfm__heads_of_cache(kv, kv->k, w->n_kv, a->K);
    a->v = tfm__heads_of_cache(kv, kv->v, w->n_kv, a->W);
    a->weights = weights;
    if (part == TFM__CROSS) a->listed = p->listed, a->n_listed = p->n_listed;
    a->masks = p->masks[part], a->kv_rows = p->kv_rows[part];
}

/* Attends from work.q to kv, for sub-layer part of a layer, and projects the contexts to out. */
static void tfm__attend_layer(const tfm__pass *p, const tfm__projections *w, int32_t layer,
                              int part, const tfm__kv *kv, const tfm__rows *out,
                              tfm__heads weights) {
    tfm__rows q = tfm__rows_beside(p, p->work.q, w->query.w.rows);
    tfm__rows context = tfm__rows_beside(p, p->work.context, tfm__contexts_width(w));
    tfm__attention a, memory;
    TFM__PART(ATTENTION);
    if (!w->has_out) context = *out; /* the contexts are the output */
    memset(&a, 0, sizeof a);
    a.B = p->x.B, a.H = w->n_heads, a.T = p->x.L, a.K = w->K, a.W = w->W;
    a.kernels = p->work.team->kernels;
    a.q = tfm__heads_of_rows(&q, a.K);
    a.group = w->n_heads / w->n_kv;
    a.context = tfm__heads_of_rows(&context, a.W);
    a.scale = tfm__attend_scale(w->scale, a.K), a.layer = layer;
    if (w->cap != 0) a.cap = (float)w->cap, a.scale *= 2 / a.cap;
    if (w->is_merged) {
        memory = a, a.memory = &memory;
        tfm__attend_source(p, w, TFM__CROSS, p->kv[TFM__CROSS] + layer,
                           tfm__pass_weights(p, TFM__CROSS, layer), &memory);
    }
    tfm__attend_source(p, w, part, kv, weights, &a);
    a.left = w->left, a.right = w->right;
    if (part == TFM__SELF)
        a.firsts = p->firsts, a.ancestry = p->ancestry, a.ancestry_stride = kv->capacity;
    if (w->relative.table) {
        a.bias_head = 2 * p->reach - 1;
        a.bias = p->bias + w->relative.first_head * a.bias_head + p->reach - 1;
    }
    a.tiles = p->work.tiles, a.scratch = p->work.scores, a.scratch_size = p->work.scores_size;
    tfm__attend_run(p->work.team, &a);
    TFM__PART(PROJECTIONS);
    if (w->has_out) tfm__linear_run(p->work.team, out, &context, &w->out);
}

TFM_DEF tfm_status tfm_multi_head_attention(tfm_tensor *out, tfm_tensor *attention,
                                            const tfm_attention_weights *weights,
                                            const tfm_attention_inputs *inputs, tfm_arena *scratch,
                                            tfm_error *err) {
    const tfm_tensor *query, *key, *value;
    tfm__team team = tfm__team_alone();
    tfm__projections w;
    tfm__rows q, k, v, y, keys, values;
    tfm__sizes z;
    tfm__pass p;
    tfm__kv kv;
    tfm_arena all;
    float *bias;
    int64_t D;
    memset(&z, 0, sizeof z);
    memset(&p, 0, sizeof p);
    memset(&kv, 0, sizeof kv);
    if (!weights || !inputs || !scratch)
        return tfm__fail(err, TFM_E_ARGUMENT, "weights, inputs or scratch is NULL");
    query = inputs->query, key = inputs->key, value = inputs->value;
    TFM__TRY(tfm__view(query, "query", 3, 3, &q, err));
    TFM__TRY(tfm__view(key, "key", 3, 3, &k, err));
    TFM__TRY(tfm__check_shape(key, "key", tfm_tensor_3d(NULL, TFM_DTYPE_F32, q.B, k.L, k.D), err));
    TFM__TRY(tfm__view(value, "value", 3, 3, &v, err));
    TFM__TRY(
        tfm__check_shape(value, "value", tfm_tensor_3d(NULL, TFM_DTYPE_F32, q.B, k.L, v.D), err));
    TFM__TRY(tfm__projections_view(weights, "attention", q.D, k.D, v.D, -1, &w, err));
    z.HK = w.query.w.rows, z.HW = tfm__contexts_width(&w);
    D = w.has_out ? w.out.w.rows : z.HW;
    TFM__TRY(tfm__view_like(out, "out", tfm_tensor_3d(NULL, TFM_DTYPE_F32, q.B, q.L, D), &y, err));
    TFM__TRY(tfm__masks_check(inputs->masks, q.B, w.n_heads, q.L, k.L, err));
    TFM__TRY(tfm__check_optional(
        attention, "attention", tfm_tensor_4d(NULL, TFM_DTYPE_F32, q.B, w.n_heads, q.L, k.L), err));
    z.M = q.B * q.L, z.key_rows = q.B * k.L, z.scores = k.L;
    p.reach = w.relative.table && q.L && k.L ? tfm__max(q.L, k.L) : 0;
    all = tfm__scratch_begin(scratch);
    TFM__TRY(tfm__work_alloc(&all, &z, &p.work, err));
    TFM__TRY(TFM__TAKE(&all, tfm__max(0, 2 * p.reach - 1), w.n_heads, &bias, err));
    p.rotary_columns = 2 * w.rotary.n;
    TFM__TRY(TFM__TAKE(&all, tfm__max(q.L, k.L), p.rotary_columns, &p.rotary, err));
    TFM__TRY(tfm__scratch_end(scratch, &all, err));
    if (scratch->measuring) return TFM_OK;
    tfm__rotary_rows(&w.rotary, 0, tfm__max(q.L, k.L), p.rotary, p.rotary_columns);
    if (p.reach) tfm__relative_spread(&w.relative, w.n_heads, p.reach, bias);
    p.x = q;
    p.bias = bias, p.work.team = &team;
    p.S = k.L, p.masks[TFM__CROSS] = inputs->masks;
    kv.k = p.work.k, kv.v = p.work.v, kv.capacity = k.L;
    q = tfm__rows_beside(&p, p.work.q, z.HK);
    keys = tfm__rows_make(p.work.k, k.B, k.L, w.key.w.rows);
    values = tfm__rows_make(p.work.v, k.B, k.L, w.value.w.rows);
    tfm__linear_run(&team, &q, &p.x, &w.query);
    tfm__linear_run(&team, &keys, &k, &w.key);
    tfm__linear_run(&team, &values, &v, &w.value);
    tfm__pass_turn(&p, &w, &q, &w.query_norm, 1);
    tfm__pass_turn(&p, &w, &keys, &w.key_norm, 1);
    tfm__attend_layer(&p, &w, 0, TFM__CROSS, &kv, &y, tfm__heads_of_tensor(attention));
    return TFM_OK;
}

/* >>stack =========================================================================================
   19. LAYERS AND STACKS
   A layer works in place on the residual stream x [B*L, D]. The same decoder layer serves the
   teacher-forced pass (all positions at once, keys and values in scratch or in the session's cache)
   and the step (one position, appended to the cache).

   A sub-layer goes: normalize (pre-norm), compute into work.y, add to the stream, normalize
   (post-norm). Scratch is allocated before the first layer. After that nothing can fail.
   ============================================================================================== */

/* A layer of an encoder, or of a decoder with cross-attention, as the products see it. */
typedef struct tfm__layer {
    tfm__projections self, cross; /* cross without heads: none */
    tfm__ssru ssru;               /* of a decoder, in place of self */
    tfm__ffn ffn;
    tfm_norm_weights norms[3];     /* by sub-layer */
    tfm_norm_weights out_norms[3]; /* of what it gives; without data: none */
    tfm_norm_order order;
} tfm__layer;

/* Layers, and the norm after the last, if it has data. */
typedef struct tfm__stack {
    tfm__layer **layers; /* [n] */
    int32_t n;
    tfm__relative relative; /* the table of every layer that has none of its own */
    int64_t relative_heads; /* heads of all tables of relative positions, the stack's and layers' */
    tfm_norm_weights norm;
} tfm__stack;

enum { TFM__NORM_ROWS = 4 }; /* normalized together, while they are in the first-level cache */

/* The residual connection and norm of all rows, which threads share. */
typedef struct tfm__add_norm {
    tfm__rows out, x, y;       /* x += y, if y has data; out = norm(x); out may be x */
    const tfm_norm_weights *w; /* NULL: no norm */
    const tfm__kernels *kernels;
    int32_t parts;
} tfm__add_norm;

static void tfm__add_norm_part(void *context, int32_t part) {
    const tfm__add_norm *a = (const tfm__add_norm *)context;
    int64_t M = a->x.B * a->x.L, D = a->x.D, some;
    int64_t i = tfm__part_begin(part, a->parts, M, TFM__NORM_ROWS);
    int64_t end = tfm__part_begin(part + 1, a->parts, M, TFM__NORM_ROWS);
    for (; i < end; i += some) {
        some = tfm__min(TFM__NORM_ROWS, end - i);
        if (a->y.data) a->kernels->add(a->x.data + i * D, a->y.data + i * D, some * D);
        if (a->w) a->kernels->norm(a->out.data + i * D, D, a->x.data + i * D, D, some, D, a->w);
    }
}

/* Computes x += y, unless y is NULL, and out = norm(x), unless w is NULL. All are row-major. */
static void tfm__add_norm_run(const tfm__team *team, const tfm__rows *out, const tfm__rows *x,
                              const tfm__rows *y, const tfm_norm_weights *w) {
    tfm__add_norm a;
    memset(&a, 0, sizeof a);
    TFM__PART(NORM);
    a.out = *out, a.x = *x, a.w = w, a.kernels = team->kernels, a.parts = 1;
    if (y) a.y = *y;
    if (tfm__team_shares(team, TFM__NORM_COST * x->B * x->L * x->D)) a.parts = 2 * team->n;
    tfm__team_run(team, tfm__add_norm_part, &a, a.parts);
}

/* Makes the products of x [B, L, D] that give its keys and values for the positions of the pass in
   kv, and its queries in work.q. Keys and values of a cache by heads go to scratch first, others
   straight to their place, from position 0 on. */
static void tfm__kv_products(const tfm__pass *p, const tfm__rows *x, const tfm__projections *w,
                             const tfm__kv *kv, tfm__product products[3]) {
    tfm__rows y = tfm__rows_make(p->work.q, x->B, x->L, w->query.w.rows);
    int i;
    products[2] = tfm__product_make(&y, x, &w->query);
    for (i = 0; i < 2; i++) {
        const tfm__linear *map = i ? &w->value : &w->key;
        tfm__heads to = tfm__heads_of_cache(kv, i ? kv->v : kv->k, w->n_kv, i ? w->W : w->K);
        y = tfm__rows_make(i ? p->work.v : p->work.k, x->B, x->L, map->w.rows);
        if (!kv->by_heads) y.data = tfm__head_row(&to, 0, 0, 0), y.sb = to.b;
        products[i] = tfm__product_make(&y, x, map);
    }
    TFM__PART(PROJECTIONS);
}

/* Copies keys and values from scratch to a cache by heads. */
static void tfm__kv_store(const tfm__pass *p, const tfm__projections *w, const tfm__kv *kv,
                          const tfm__product products[2]) {
    int64_t b, h, l;
    int i;
    for (i = 0; kv->by_heads && i < 2; i++) {
        const tfm__rows *y = &products[i].y;
        int64_t width = i ? w->W : w->K;
        tfm__heads to = tfm__heads_of_cache(kv, i ? kv->v : kv->k, w->n_kv, width);
        for (b = 0; b < y->B; b++)
            for (h = 0; h < w->n_kv; h++)
                for (l = 0; l < y->L; l++) {
                    int64_t row = p->kv_rows[TFM__SELF] ? p->kv_rows[TFM__SELF][b] : b;
                    const float *from = tfm__row(y, b, l) + h * width;
                    void *at = tfm__head_at(&to, row, h, tfm__first_of(p->firsts, b) + l);
                    if (!kv->is_f16) memcpy(at, from, (size_t)width * sizeof *from);
                    else p->work.team->kernels->narrow_f16((uint16_t *)at, from, width);
                }
    }
}

/* Computes keys and values of x, without its queries. */
static void tfm__kv_append(const tfm__pass *p, const tfm__rows *x, const tfm__projections *w,
                           const tfm__kv *kv) {
    tfm__product products[3];
    tfm__kv_products(p, x, w, kv, products);
    tfm__product_run(p->work.team, products, 2);
    tfm__pass_turn(p, w, &products[0].y, &w->key_norm, 0);
    tfm__kv_store(p, w, kv, products);
}

static int tfm__is_ssru(const tfm__layer *l) { return l->ssru.input.w.rows > 0; }

/* Returns the attention that reads the memory. */
static const tfm__projections *tfm__layer_memory(const tfm__layer *l) {
    return l->self.is_merged ? &l->self : &l->cross;
}

/* Returns the state of an SSRU after a position. */
static float *tfm__ssru_state(const tfm__kv *kv, int64_t row, int64_t position, int64_t D) {
    return (float *)kv->k + (row * kv->slots + position % kv->slots) * D;
}

/* Computes an SSRU. A step reads the state in the row of each hypothesis's predecessor, or, for the
   tokens of a draft, that of the position before, which is the row before in this pass. Passes with
   caches write the state after a row's last position to its own row. All states are read before the
   first is written, so a fork copies nothing else. */
static void tfm__ssru_run(const tfm__pass *p, const tfm__layer *l, const tfm__kv *kv,
                          const tfm__rows *in, const tfm__rows *c) {
    tfm__rows gates = tfm__rows_beside(p, p->work.q, p->x.D);
    const int32_t *rows = p->kv_rows[TFM__SELF];
    int64_t b;
    tfm__ssru_products(p->work.team, c, &gates, in, &l->ssru);
    TFM__PART(ATTENTION);
    for (b = 0; b < c->B; b++) {
        const float *before = NULL;
        int64_t first = tfm__first_of(p->firsts, b);
        if (b && rows && rows[b] == rows[b - 1]) before = tfm__row(c, b - 1, 0);
        else if (first)
            before =
                tfm__ssru_state(kv, p->ancestry[b * kv->capacity + first - 1], first - 1, c->D);
        tfm__ssru_scan(c, &gates, b, before);
    }
    for (b = 0; rows && b < c->B; b++) {
        int64_t last = (p->lengths ? p->lengths[b] : c->L) - 1;
        memcpy(tfm__ssru_state(kv, rows[b], tfm__first_of(p->firsts, b) + last, c->D),
               tfm__row(c, b, last), (size_t)c->D * sizeof(float));
    }
    tfm__ssru_out(p->work.team->kernels, c);
}

/* Runs all layers of an encoder or a decoder over the stream, then the stack's norm. Self-attention
   first appends the keys and values of its input to the cache. */
static void tfm__stack_run(const tfm__pass *p, const tfm__stack *stack) {
    const tfm__rows out = tfm__rows_beside(p, p->work.y, p->x.D);
    const tfm__team *team = p->work.team;
    tfm__product products[3];
    int32_t i, part;
    for (i = 0; i < stack->n; i++)
        for (part = TFM__SELF; part <= TFM__FFN; part++) {
            const tfm__layer *l = stack->layers[i];
            const tfm__projections *w = part == TFM__SELF ? &l->self : &l->cross;
            const int64_t positions = part == TFM__SELF ? p->x.L : p->S;
            const tfm__kv scratch = {p->work.k, p->work.v, 0, 0, positions, 0};
            const tfm__kv *kv = part < TFM__FFN && p->kv[part] ? p->kv[part] + i : &scratch;
            tfm__rows q = tfm__rows_beside(p, p->work.q, w->query.w.rows), in = p->x;
            if (p->only_caches && part == TFM__CROSS && i + 1 == stack->n) return;
            if (part == TFM__CROSS && !w->n_heads) continue;
            if (l->order == TFM_NORM_ORDER_PRE) {
                in = tfm__rows_beside(p, p->work.n, p->x.D);
                tfm__add_norm_run(team, &in, &p->x, NULL, &l->norms[part]);
            }
            if (part == TFM__FFN) tfm__ffn_run(team, &out, &in, &l->ffn, p->work.hidden);
            else if (part == TFM__SELF && tfm__is_ssru(l)) tfm__ssru_run(p, l, kv, &in, &out);
            else {
                if (part == TFM__SELF) {
                    tfm__kv_products(p, &in, w, kv, products);
                    tfm__product_run(team, products, 3);
                    tfm__pass_turn(p, w, &products[0].y, &w->key_norm, 1);
                    tfm__pass_turn(p, w, &q, &w->query_norm, 1);
                    tfm__kv_store(p, w, kv, products);
                } else {
                    if (p->memory.data) tfm__kv_append(p, &p->memory, w, kv);
                    tfm__linear_run(team, &q, &in, &w->query);
                    tfm__pass_turn(p, w, &q, &w->query_norm, 0);
                }
                tfm__attend_layer(p, w, i, part, kv, &out, tfm__pass_weights(p, part, i));
            }
            if (tfm__norm_exists(&l->out_norms[part]))
                tfm__add_norm_run(team, &out, &out, NULL, &l->out_norms[part]);
            tfm__add_norm_run(team, &p->x, &p->x, &out,
                              l->order == TFM_NORM_ORDER_POST ? &l->norms[part] : NULL);
        }
    if (tfm__norm_exists(&stack->norm)) tfm__add_norm_run(team, &p->x, &p->x, NULL, &stack->norm);
}

/* Widens sizes to what a layer needs. */
static void tfm__sizes_grow(tfm__sizes *z, const tfm__layer *l) {
    const tfm__projections *c = &l->cross;
    z->HK = tfm__max(z->HK, tfm__max(l->self.query.w.rows, c->query.w.rows));
    z->HK = tfm__max(z->HK, l->ssru.gate.w.rows);
    z->HW = tfm__max(z->HW, tfm__max(tfm__contexts_width(&l->self), tfm__contexts_width(c)));
    z->K = tfm__max(z->K, tfm__max(l->self.K, c->K));
    z->W = tfm__max(z->W, tfm__max(l->self.W, c->W));
    z->F = tfm__max(z->F, tfm__ffn_width(&l->ffn));
}

/* Writes the bias of every distance between some positions, for each table of the stack. */
static void tfm__stack_spread(const tfm__stack *stack, int64_t positions, float *to) {
    int32_t i;
    for (i = 0; i < stack->n; i++) {
        const tfm__projections *w = &stack->layers[i]->self;
        if (w->relative.table) tfm__relative_spread(&w->relative, w->n_heads, positions, to);
    }
}

/* Views layer i of an encoder or a decoder; the other is NULL. D and memory are the widths of the
   stream and of the encoder's output. */
static tfm_status tfm__layer_view(const tfm_encoder_weights *encoder,
                                  const tfm_decoder_weights *decoder, int32_t i, int64_t D,
                                  int64_t memory, tfm__layer *l, tfm_error *err) {
    const tfm_encoder_layer_weights *e = encoder ? &encoder->layers[i] : NULL;
    const tfm_decoder_layer_weights *d = decoder ? &decoder->layers[i] : NULL;
    int part;
    memset(l, 0, sizeof *l);
    l->order = e ? e->order : d->order;
    l->norms[TFM__SELF] = e ? e->norm1 : d->norm1;
    l->norms[TFM__CROSS] = e ? e->norm2 : d->norm2;
    l->norms[TFM__FFN] = e ? e->norm2 : d->norm3;
    l->out_norms[TFM__SELF] = e ? e->norm1_out : d->norm1_out;
    l->out_norms[TFM__CROSS] = e ? e->norm2_out : d->norm2_out;
    l->out_norms[TFM__FFN] = e ? e->norm2_out : d->norm3_out;
    if (d && (d->ssru.input.weight.data || d->ssru.gate.weight.data)) {
        if (d->self_attn.query.weight.data)
            return tfm__fail(err, TFM_E_ARGUMENT,
                             "layers[%d] has both self_attn and ssru: set one of them to zeros", i);
        TFM__TRY(tfm__ssru_view(&d->ssru, D, D, &l->ssru, err));
    } else
        TFM__TRY(tfm__projections_view(e ? &e->self_attn : &d->self_attn, "self_attn", D, D, D, D,
                                       &l->self, err));
    if (d)
        TFM__TRY(tfm__projections_view(&d->cross_attn, "cross_attn", D, memory, memory, D,
                                       &l->cross, err));
    if (l->cross.relative.table || l->cross.rotary.frequencies || l->cross.left)
        return tfm__fail(err, TFM_E_ARGUMENT, "cross_attn has %s, which only self_attn may have",
                         l->cross.left             ? "a window"
                         : l->cross.relative.table ? "relative positions"
                                                   : "rotary positions");
    TFM__TRY(tfm__ffn_view(e ? &e->ffn : &d->ffn, D, &l->ffn, err));
    for (part = TFM__SELF; part <= TFM__FFN; part++) {
        static const char *const names[][3] = {{"norm1", "norm2", "norm2"},
                                               {"norm1", "norm2", "norm3"}};
        static const char *const outs[][3] = {{"norm1_out", "norm2_out", "norm2_out"},
                                              {"norm1_out", "norm2_out", "norm3_out"}};
        TFM__TRY(tfm__norm_check(&l->norms[part], names[d != NULL][part], D, err));
        TFM__TRY(tfm__norm_check(&l->out_norms[part], outs[d != NULL][part], D, err));
    }
    return tfm__check_choice((int)l->order, &tfm__norm_order_words, "order", "", err);
}

/* Returns n tensors of a shape as one, with a dimension before it. */
static tfm_tensor tfm__tensor_stacked(const tfm_tensor *one, int64_t n) {
    int64_t dims[TFM_MAX_RANK];
    dims[0] = n;
    memcpy(dims + 1, one->dims, (TFM_MAX_RANK - 1) * sizeof *dims);
    return tfm_tensor_make(one->data, one->dtype, one->rank + 1, dims);
}

/* Runs the encoder e or the decoder d; the other is NULL. The layers run in place on a copy of x in
   scratch, so out may be x. Only its own layer needs a decoder layer's keys and values, so one
   buffer is enough. The caller has set masks and attention of p; all else is zero. */
static tfm_status tfm__stack_call(tfm__pass *p, const tfm_encoder_weights *e,
                                  const tfm_decoder_weights *d, tfm_tensor *out,
                                  const tfm_tensor *x, const tfm_tensor *memory, tfm_arena *scratch,
                                  tfm_error *err) {
    const tfm_norm_weights *norm;
    tfm__team team = tfm__team_alone();
    tfm__rows from, to;
    tfm__layer layer, *layers;
    tfm__sizes z;
    tfm__stack stack;
    tfm_tensor shape;
    tfm_arena all;
    float *data, *bias;
    int64_t B, L, S;
    int32_t i;
    memset(&z, 0, sizeof z);
    memset(&stack, 0, sizeof stack);
    if ((!e && !d) || !scratch) return tfm__fail(err, TFM_E_ARGUMENT, "weights or scratch is NULL");
    stack.n = (int32_t)tfm__max(0, e ? e->n_layers : d->n_layers);
    norm = e ? e->norm : d->norm;
    if (stack.n && (e ? !e->layers : !d->layers))
        return tfm__fail(err, TFM_E_ARGUMENT, "weights or layers is NULL");
    TFM__TRY(tfm__view(x, "x", 3, 3, &from, err));
    B = from.B, L = from.L;
    if (d) {
        TFM__TRY(tfm__view(memory, "memory", 3, 3, &p->memory, err));
        shape = tfm_tensor_3d(NULL, TFM_DTYPE_F32, B, p->memory.L, p->memory.D);
        TFM__TRY(tfm__check_shape(memory, "memory", shape, err));
    }
    S = p->memory.L;
    TFM__TRY(tfm__view_like(out, "out", *x, &to, err));
    all = tfm__scratch_begin(scratch);
    TFM__TRY(TFM__TAKE(&all, stack.n, 1, &stack.layers, err));
    TFM__TRY(TFM__TAKE(&all, stack.n, 1, &layers, err));
    for (i = 0; i < stack.n; i++) {
        TFM__TRY(tfm__layer_view(e, d, i, from.D, p->memory.D, &layer, err));
        layer.self.relative.first_head = stack.relative_heads;
        if (layer.self.relative.table) stack.relative_heads += layer.self.n_heads;
        layer.self.rotary.first = p->rotary_columns;
        p->rotary_columns += 2 * layer.self.rotary.n;
        tfm__sizes_grow(&z, &layer);
        if (stack.layers && layers) layers[i] = layer, stack.layers[i] = &layers[i];
        if (!tfm__is_ssru(&layer))
            TFM__TRY(tfm__masks_check(p->masks[TFM__SELF], B, layer.self.n_heads, L, L, err));
        else if (p->attention[TFM__SELF] && p->attention[TFM__SELF]->data)
            return tfm__fail(
                err, TFM_E_ARGUMENT,
                "self_attention: layers[%d] is an SSRU, which has no attention: pass NULL", i);
        TFM__TRY(tfm__masks_check(p->masks[TFM__CROSS], B, layer.cross.n_heads, L, S, err));
        shape = tfm_tensor_4d(NULL, TFM_DTYPE_F32, B, layer.self.n_heads, L, L);
        TFM__TRY(tfm__check_optional(p->attention[TFM__SELF], d ? "self_attention" : "attention",
                                     tfm__tensor_stacked(&shape, stack.n), err));
        shape = tfm_tensor_4d(NULL, TFM_DTYPE_F32, B, layer.cross.n_heads, L, S);
        TFM__TRY(tfm__check_optional(p->attention[TFM__CROSS], "cross_attention",
                                     tfm__tensor_stacked(&shape, stack.n), err));
    }
    if (norm) TFM__TRY(tfm__norm_check(norm, "norm", from.D, err));
    z.D = from.D;
    z.M = B * L, z.key_rows = B * tfm__max(L, S);
    z.scores = d ? tfm__max(L, S) : tfm__attend_tile_scratch(TFM_WEIGHT_TYPE_F32, L, z.K, z.W);
    TFM__TRY(TFM__TAKE(&all, z.M, z.D, &data, err));
    TFM__TRY(tfm__work_alloc(&all, &z, &p->work, err));
    TFM__TRY(TFM__TAKE(&all, stack.relative_heads, tfm__max(0, 2 * L - 1), &bias, err));
    TFM__TRY(TFM__TAKE(&all, L, p->rotary_columns, &p->rotary, err));
    TFM__TRY(tfm__scratch_end(scratch, &all, err));
    if (scratch->measuring) return TFM_OK;
    tfm__stack_spread(&stack, L, bias);
    for (i = 0; i < stack.n; i++)
        tfm__rotary_rows(&layers[i].self.rotary, 0, L, p->rotary, p->rotary_columns);
    p->x = tfm__rows_make(data, B, L, from.D);
    p->bias = bias, p->reach = p->end = L, p->S = S;
    p->work.team = &team;
    p->work.tiles = d ? TFM_WEIGHT_TYPE_AS_STORED : TFM_WEIGHT_TYPE_F32;
    tfm__copy_rows(&p->x, &from);
    tfm__stack_run(p, &stack);
    if (norm) tfm__norm_run(team.kernels, &p->x, &p->x, norm);
    tfm__copy_rows(&to, &p->x);
    return TFM_OK;
}

TFM_DEF tfm_status tfm_encoder(tfm_tensor *out, tfm_tensor *attention,
                               const tfm_encoder_weights *weights, const tfm_tensor *x,
                               const tfm_masks *masks, tfm_arena *scratch, tfm_error *err) {
    tfm__pass p;
    memset(&p, 0, sizeof p);
    p.attention[TFM__SELF] = attention, p.masks[TFM__SELF] = masks;
    return tfm__stack_call(&p, weights, NULL, out, x, NULL, scratch, err);
}

TFM_DEF tfm_status tfm_decoder(tfm_tensor *out, tfm_tensor *self_attention,
                               tfm_tensor *cross_attention, const tfm_decoder_weights *weights,
                               const tfm_decoder_inputs *inputs, tfm_arena *scratch,
                               tfm_error *err) {
    tfm__pass p;
    memset(&p, 0, sizeof p);
    p.attention[TFM__SELF] = self_attention, p.attention[TFM__CROSS] = cross_attention;
    if (!inputs) return tfm__fail(err, TFM_E_ARGUMENT, "inputs is NULL");
    p.masks[TFM__SELF] = inputs->self_masks, p.masks[TFM__CROSS] = inputs->cross_masks;
    return tfm__stack_call(&p, NULL, weights, out, inputs->x, inputs->memory, scratch, err);
}

/* Returns the attention tensor of one layer as that of a stack: the same memory. */
static tfm_tensor *tfm__tensor_as_stack(const tfm_tensor *one, tfm_tensor *stack) {
    if (!one || one->rank != 4) return (tfm_tensor *)one;
    *stack = tfm__tensor_stacked(one, 1);
    memcpy(stack->strides + 1, one->strides, 4 * sizeof *one->strides);
    return stack;
}

/* A layer is a stack of one. */
TFM_DEF tfm_status tfm_encoder_layer(tfm_tensor *out, tfm_tensor *attention,
                                     const tfm_encoder_layer_weights *weights, const tfm_tensor *x,
                                     const tfm_masks *masks, tfm_arena *scratch, tfm_error *err) {
    tfm_encoder_weights one = {weights, 1, NULL};
    tfm_tensor stack;
    return tfm_encoder(out, tfm__tensor_as_stack(attention, &stack), &one, x, masks, scratch, err);
}

TFM_DEF tfm_status tfm_decoder_layer(tfm_tensor *out, tfm_tensor *self_attention,
                                     tfm_tensor *cross_attention,
                                     const tfm_decoder_layer_weights *weights,
                                     const tfm_decoder_inputs *inputs, tfm_arena *scratch,
                                     tfm_error *err) {
    tfm_decoder_weights one = {weights, 1, NULL};
    tfm_tensor self_stack, cross_stack;
    return tfm_decoder(out, tfm__tensor_as_stack(self_attention, &self_stack),
                       tfm__tensor_as_stack(cross_attention, &cross_stack), &one, inputs, scratch,
                       err);
}

#ifdef TFM__NO_MODULES
#pragma pop_macro("TFM_DEF")
#endif

/* >>utf8 ==========================================================================================
   20. UTF-8
   Used by the JSON reader, the vocabularies and the tokenizers. Relies on nothing.
   ============================================================================================== */

/* Sets *character to that at text. Returns its bytes, 1 to 4, or 0 if it is not well-formed. */
static TFM__INLINE int tfm__utf8_next(const char *text, size_t size, uint32_t *character) {
    const unsigned char *p = (const unsigned char *)text;
    uint32_t c, next[3]; /* of a byte that continues: below 64 */
    if (size == 0 || (p[0] >= 0x80 && (p[0] < 0xC2 || size == 1))) return 0;
    *character = c = p[0];
    if (c < 0x80) return 1;
    next[0] = p[1] ^ 0x80u;
    if (next[0] > 63) return 0;
    *character = (c & 31) << 6 | next[0];
    if (c < 0xE0) return 2;
    if (size < 3 || (next[1] = p[2] ^ 0x80u) > 63) return 0;
    *character = c = (c & 31) << 12 | next[0] << 6 | next[1];
    if (c < 0x10000) return c >= 0x800 && (c < 0xD800 || c >= 0xE000) ? 3 : 0;
    if (size < 4 || (next[2] = p[3] ^ 0x80u) > 63) return 0;
    *character = c = (c & 0x7FFF) << 6 | next[2];
    return p[0] < 0xF5 && c >= 0x10000 && c <= 0x10FFFF ? 4 : 0;
}

/* Returns the offset of the first byte that is not UTF-8, or -1. */
static int64_t tfm__utf8_fault(const char *text, size_t size) {
    uint32_t character, four, more;
    size_t i = 0, n;
    for (; i < size; i += n) {
        n = 1;
        if ((unsigned char)text[i] < 0x80) {
            if (size - i < sizeof four) continue;
            /* Two reads of 4 bytes, which may overlap, cover the next n bytes. If all are ASCII,
               the loop goes on behind them. */
            n = size - i < 8 ? size - i : 8;
            memcpy(&four, text + i, sizeof four);
            memcpy(&more, text + i + n - sizeof more, sizeof more);
            if ((four | more) & 0x80808080u) n = 1;
            continue;
        }
        n = (size_t)tfm__utf8_next(text + i, size - i, &character);
        if (n == 0) return (int64_t)i;
    }
    TFM__COUNT_TEXT(size);
    return -1;
}

/* Writes the 1 to 4 bytes of c, and returns where the next goes. */
static char *tfm__utf8_put(char *out, uint32_t c) {
    static const unsigned char lead[4] = {0, 0xC0, 0xE0, 0xF0};
    int more = c < 0x80 ? 0 : c < 0x800 ? 1 : c < 0x10000 ? 2 : 3; /* bytes behind the first */
    *out++ = (char)(lead[more] | c >> 6 * more);
    while (more--) *out++ = (char)(0x80 | (c >> 6 * more & 0x3F));
    return out;
}

/* >>json ==========================================================================================
   21. JSON
   A strict reader that walks the text once and builds nothing. The text must be valid UTF-8. Each
   function skips whitespace first. At a fault it returns 0, or -1 if it counts, and leaves `at` on
   the faulty byte.
   ============================================================================================== */

enum { TFM__JSON_DEPTH = 64 };

typedef struct tfm__json {
    const char *begin, *at, *end;
} tfm__json;

static void tfm__json_space(tfm__json *j) {
    while (j->at < j->end && (*j->at == ' ' || *j->at == '\t' || *j->at == '\n' || *j->at == '\r'))
        j->at++;
}

/* Steps over c if it is the next character, and returns whether it was. */
static int tfm__json_accept(tfm__json *j, char c) {
    tfm__json_space(j);
    if (j->at >= j->end || *j->at != c) return 0;
    j->at++;
    return 1;
}

/* Reads the four hexadecimal digits of \uXXXX. */
static int tfm__json_hex4(tfm__json *j, uint32_t *value) {
    static const char digits[] = "0123456789abcdef0123456789ABCDEF";
    int i;
    for (*value = 0, i = 0; i < 4; i++, j->at++) {
        const char *digit = j->at < j->end && *j->at ? strchr(digits, *j->at) : NULL;
        if (!digit) return 0;
        *value = *value << 4 | (uint32_t)((digit - digits) % 16);
    }
    return 1;
}

/* Reads a string and writes it to out, unescaped and with a terminating zero. The result is never
   longer than the source. If out is NULL, the string is only checked. A NUL character is a fault,
   because names and values are C strings. */
static int tfm__json_string(tfm__json *j, char *out) {
    char dummy[4];
    if (!tfm__json_accept(j, '"')) return 0;
    while (j->at < j->end && *j->at != '"') {
        char *to = out ? out : dummy;
        const char *begin = to;
        if ((unsigned char)*j->at < 0x20) return 0;
        if (*j->at != '\\') { /* the whole text was checked to be UTF-8 */
            const char *end = j->at + 1;
            while (end < j->end && (unsigned char)*end >= 0x20 && *end != '"' && *end != '\\')
                end++;
            if (out) memcpy(out, j->at, (size_t)(end - j->at)), out += end - j->at;
            j->at = end;
        } else {
            static const char from[] = "\"\\/bfnrt", into[] = "\"\\/\b\f\n\r\t";
            const char *e;
            uint32_t c, low;
            if (++j->at >= j->end) return 0;
            if (*j->at == 'u') {
                j->at++;
                if (!tfm__json_hex4(j, &c) || c == 0 || (c >= 0xDC00 && c < 0xE000)) return 0;
                if (c >= 0xD800 && c < 0xDC00) { /* the second half of the pair must follow */
                    if (j->end - j->at < 2 || j->at[0] != '\\' || j->at[1] != 'u') return 0;
                    j->at += 2;
                    if (!tfm__json_hex4(j, &low) || low < 0xDC00 || low >= 0xE000) return 0;
                    c = 0x10000 + ((c - 0xD800) << 10) + (low - 0xDC00);
                }
                to = tfm__utf8_put(to, c);
            } else {
                e = *j->at ? strchr(from, *j->at) : NULL;
                if (!e) return 0;
                *to++ = into[e - from];
                j->at++;
            }
        }
        if (out) out += to - begin;
    }
    if (out) *out = 0;
    return tfm__json_accept(j, '"');
}

/* The number digits * 10^exponent. is_integer: it is written without fraction and exponent. */
typedef struct tfm__json_decimal {
    uint64_t digits;
    int64_t exponent, n_digits; /* n_digits: leading zeros are not counted */
    int negative, is_integer;
} tfm__json_decimal;

enum { TFM__EXACT_DIGITS = 19 }; /* digits holds so many; if n_digits is more, digits is cut */

/* Appends the digits that follow to those of n, and returns how many they are. */
static int64_t tfm__json_digits(tfm__json *j, tfm__json_decimal *n) {
    const char *begin = j->at;
    for (; j->at < j->end && *j->at >= '0' && *j->at <= '9'; j->at++) {
        n->n_digits += n->n_digits || *j->at != '0';
        if (n->n_digits <= TFM__EXACT_DIGITS) n->digits = n->digits * 10 + (uint64_t)(*j->at - '0');
    }
    return j->at - begin;
}

static int tfm__json_number(tfm__json *j, tfm__json_decimal *n) {
    tfm__json_decimal power;
    const char *begin, *end;
    memset(n, 0, sizeof *n);
    memset(&power, 0, sizeof power);
    n->negative = tfm__json_accept(j, '-');
    begin = j->at;
    if (!tfm__json_digits(j, n) || (*begin == '0' && j->at - begin > 1)) return 0;
    end = j->at;
    if (j->at < j->end && *j->at == '.') {
        j->at++;
        n->exponent = -tfm__json_digits(j, n);
        if (!n->exponent) return 0;
    }
    if (j->at < j->end && (*j->at == 'e' || *j->at == 'E')) {
        int64_t sign = ++j->at < j->end && *j->at == '-' ? -1 : 1;
        if (j->at < j->end && (*j->at == '-' || *j->at == '+')) j->at++;
        if (!tfm__json_digits(j, &power)) return 0;
        n->exponent += sign * (power.n_digits > 12 ? (int64_t)1 << 40 : (int64_t)power.digits);
    }
    n->is_integer = j->at == end;
    return 1;
}

/* Returns the nearest double, the even one of two equally near, or infinity if the number is too
   large. The product or quotient is exact, in limbs of 32 bits, the lowest first. strtod is not
   used because its result depends on the locale. */
static double tfm__json_to_double(const tfm__json_decimal *n) {
    enum { LIMBS = 38 };
    uint32_t limbs[LIMBS];
    int64_t left = n->exponent, point = 32 * (left < 0 ? LIMBS - 2 : 2), low, i;
    uint64_t mantissa = 0, carry, rest = 0;
    if (!n->digits || left < -345) return n->negative ? -0.0 : 0;
    if (left > 308) return HUGE_VAL;
    memset(limbs, 0, sizeof limbs);
    limbs[point / 32] = (uint32_t)n->digits;
    limbs[point / 32 + 1] = (uint32_t)(n->digits >> 32);
    for (; left > 0; left--)
        for (i = 0, carry = 0; i < LIMBS; i++, carry >>= 32) {
            carry += (uint64_t)limbs[i] * 10;
            limbs[i] = (uint32_t)carry;
        }
    for (; left < 0; left++, rest |= carry)
        for (i = LIMBS - 1, carry = 0; i >= 0; i--, carry %= 10) {
            carry = carry << 32 | limbs[i];
            limbs[i] = (uint32_t)(carry / 10);
        }
    for (i = 32 * LIMBS - 1; !(limbs[i / 32] >> i % 32 & 1);) i--; /* the top bit */
    /* 53 bits and one more, or fewer above 2^-1074 */
    low = tfm__max(i - 52, point - 1074);
    for (; i >= low - 1; i--) mantissa = mantissa << 1 | (limbs[i / 32] >> i % 32 & 1);
    for (; i >= 0; i--) rest |= limbs[i / 32] >> i % 32 & 1;
    mantissa = (mantissa >> 1) + (mantissa & 1 & (rest ? 1 : mantissa >> 1));
    low -= point;
    if (low + (int64_t)(mantissa >> 53) > 971) return HUGE_VAL; /* x87's ldexp would not overflow */
    return ldexp(n->negative ? -(double)mantissa : (double)mantissa, (int)low);
}

/* Reads a number that has no sign, fraction or exponent and fits an int64_t. */
static int tfm__json_int64(tfm__json *j, int64_t *value) {
    tfm__json_decimal n;
    if (!tfm__json_number(j, &n) || n.negative || !n.is_integer || n.n_digits > TFM__EXACT_DIGITS ||
        n.digits > (uint64_t)INT64_MAX)
        return 0;
    *value = (int64_t)n.digits;
    return 1;
}

/* Checks one value of any kind and steps over it. Returns the number of an object's members or a
   list's elements, 0 for other values, -1 at a fault. */
static int64_t tfm__json_value(tfm__json *j, int depth) {
    static const char *const words[] = {"true", "false", "null"};
    tfm__json_decimal number;
    int64_t count = 0;
    char close;
    int i;
    tfm__json_space(j);
    if (j->at >= j->end || depth > TFM__JSON_DEPTH) return -1;
    if (*j->at == '"') return tfm__json_string(j, NULL) - 1;
    if (*j->at == '-' || (*j->at >= '0' && *j->at <= '9')) return tfm__json_number(j, &number) - 1;
    for (i = 0; i < 3; i++) {
        size_t n = strlen(words[i]);
        if ((size_t)(j->end - j->at) >= n && memcmp(j->at, words[i], n) == 0) {
            j->at += n;
            return 0;
        }
    }
    if (*j->at != '{' && *j->at != '[') return -1;
    close = *j->at == '{' ? '}' : ']';
    j->at++;
    if (tfm__json_accept(j, close)) return 0;
    do {
        if (close == '}' && (!tfm__json_string(j, NULL) || !tfm__json_accept(j, ':'))) return -1;
        if (tfm__json_value(j, depth + 1) < 0) return -1;
        count++;
    } while (tfm__json_accept(j, ','));
    return tfm__json_accept(j, close) ? count : -1;
}

/* Does the same for a value that must begin with open: '{' or '['. */
static int64_t tfm__json_count(tfm__json *j, char open) {
    tfm__json_space(j);
    return j->at < j->end && *j->at == open ? tfm__json_value(j, 0) : -1;
}

/* Reads the key of an object's next member and the colon after it. The text must have been checked.
   Call it at the beginning of the object and after each value. Returns 0 at the object's end. */
static int tfm__json_member(tfm__json *j, char *key) {
    if (!tfm__json_accept(j, '{')) (void)tfm__json_accept(j, ',');
    if (tfm__json_accept(j, '}')) return 0;
    return tfm__json_string(j, key) && tfm__json_accept(j, ':');
}
/* Steps to the next element of a list in the same way. Returns 0 when the list has ended. */
static int tfm__json_element(tfm__json *j) {
    if (!tfm__json_accept(j, '[')) (void)tfm__json_accept(j, ',');
    return !tfm__json_accept(j, ']');
}

/* >>safetensors ===================================================================================
   22. THE FILE FORMAT
   A file is 8 bytes of header length, a JSON header, and the data. All rules of the format are
   checked before a pointer is handed out: JSON, UTF-8, unique names, types, shapes (no product may
   overflow) and offsets (inside the data, without a hole, an overlap or a rest). Memory is in
   proportion to the header. Entries are sorted, so 100,000 tensors take n log n steps.
   ============================================================================================== */

typedef struct tfm__file_entry {
    const char *name;   /* first, for tfm__file_compare_names */
    int64_t begin, end; /* bytes of the data section */
    int64_t dims[TFM_MAX_RANK];
    int32_t rank;
    tfm_dtype dtype;
    int is_used; /* the model loader asked for it */
} tfm__file_entry;

/* bytes of the shortest entry: "":{"dtype":"U8","shape":[],"data_offsets":[0,0]} */
enum { TFM__LEAST_ENTRY = 49 };

struct tfm_safetensors {
    tfm__pool pool;            /* first, for tfm__pool_make */
    const unsigned char *data; /* the data section */
    int64_t size, n_entries, n_metadata;
    tfm__file_entry *entries;
    void **by_offset, **by_name; /* the same entries, sorted */
    const char **metadata;       /* key, value, key, value ... */
    char *strings;               /* names and metadata, unescaped; as long as the header */
};

/* Orders strings, or entries by their names. a and b point to the pointers. */
static int tfm__file_compare_names(const void *a, const void *b) {
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* Orders by place in the data. An empty tensor comes before the tensor that begins at the same
   byte; several empty ones keep the order of the header. */
static int tfm__file_compare_offsets(const void *a, const void *b) {
    const tfm__file_entry *x = (const tfm__file_entry *)a, *y = (const tfm__file_entry *)b;
    if (x->begin != y->begin) return x->begin < y->begin ? -1 : 1;
    if (x->end != y->end) return x->end < y->end ? -1 : 1;
    return x < y ? -1 : x > y; /* both lie in one array */
}

/* Reports a fault at j->at: "... byte 17: bad shape of encoder.norm.weight". */
static tfm_status tfm__file_fault(const tfm__json *j, const char *what, const char *name,
                                  tfm_error *err) {
    return tfm__fail(err, TFM_E_FORMAT, "safetensors header, byte %i: %s%s%s",
                     (int64_t)(j->at - j->begin), what, *name ? " of " : "", name);
}

/* Reads a list of at most most sizes, and returns how many there are; -1 if the value is none. */
static int tfm__file_sizes(tfm__json *j, int64_t *values, int most) {
    int n;
    tfm__json_space(j);
    if (*j->at != '[') return -1;
    for (n = 0; tfm__json_element(j); n++)
        if (n == most || !tfm__json_int64(j, &values[n])) return -1;
    return n;
}

/* Reads {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]}, in any order. Each must occur
   once; other members are skipped. spare has room for any string of the header. */
static tfm_status tfm__file_read_entry(tfm__json *j, tfm__file_entry *e, char *spare,
                                       tfm_error *err) {
    static const char *const names[] = {"dtype", "shape", "data_offsets"};
    static const char *const wrong[] = {"bad or duplicate dtype",
                                        "bad or duplicate shape (at most 8 sizes)",
                                        "bad or duplicate data_offsets"};
    int64_t offsets[2], count = 1, bits;
    int have[3] = {0, 0, 0}, i, k, is_good;
    tfm__json_space(j);
    if (*j->at != '{') return tfm__file_fault(j, "the entry is not an object", e->name, err);
    while (tfm__json_member(j, spare)) {
        for (k = 0; k < 3 && strcmp(spare, names[k]) != 0;) k++;
        if (k == 0) is_good = tfm__json_string(j, spare);
        else if (k == 1) is_good = (e->rank = tfm__file_sizes(j, e->dims, TFM_MAX_RANK)) >= 0;
        else if (k == 2) is_good = tfm__file_sizes(j, offsets, 2) == 2;
        else is_good = tfm__json_value(j, 2) >= 0;
        if (k < 3 && (have[k]++ || !is_good)) return tfm__file_fault(j, wrong[k], e->name, err);
        if (k) continue;
        for (i = 0; i < TFM_DTYPE_COUNT && strcmp(spare, tfm__dtypes[i].name) != 0;) i++;
        if (i == TFM_DTYPE_COUNT)
            return tfm__fail(err, TFM_E_FORMAT, "tensor '%s' has the unknown dtype '%s'", e->name,
                             spare);
        e->dtype = (tfm_dtype)i;
    }
    for (k = 0; k < 3; k++)
        if (!have[k])
            return tfm__fail(err, TFM_E_FORMAT, "tensor '%s' has no %s", e->name, names[k]);
    /* the range must be as long as shape and dtype say */
    e->begin = offsets[0];
    e->end = offsets[1];
    if (e->begin > e->end)
        return tfm__fail(err, TFM_E_FORMAT, "tensor '%s' begins at byte %i and ends before, at %i",
                         e->name, e->begin, e->end);
    for (i = 0; i < e->rank; i++)
        if (!tfm__mul(count, e->dims[i], &count))
            return tfm__fail(err, TFM_E_FORMAT, "tensor '%s': its shape overflows", e->name);
    if (!tfm__mul(count, tfm__dtypes[e->dtype].bits, &bits) || bits % 8 ||
        bits / 8 != e->end - e->begin)
        return tfm__fail(err, TFM_E_FORMAT, "tensor '%s': %i elements of %s in %i bytes", e->name,
                         count, tfm__dtypes[e->dtype].name, e->end - e->begin);
    return TFM_OK;
}

/* Keeps the string that was just written at f->strings + *used, and returns it. */
static const char *tfm__file_keep_string(tfm_safetensors *f, int64_t *used) {
    const char *kept = f->strings + *used;
    *used += (int64_t)strlen(kept) + 1;
    return kept;
}

/* Reads the object __metadata__, which has a string for each key, and no key twice. */
static tfm_status tfm__file_read_metadata(tfm_safetensors *f, tfm__json *j, int64_t *used,
                                          tfm_error *err) {
    tfm__json ahead = *j;
    void **sorted;
    int64_t i, n = tfm__json_count(&ahead, '{');
    if (n < 0) return tfm__file_fault(&ahead, "__metadata__ is not an object", "", err);
    TFM__TRY(TFM__NEW(&f->pool, 2 * n, &f->metadata, err));
    TFM__TRY(TFM__NEW(&f->pool, n, &sorted, err));
    f->n_metadata = n;
    for (i = 0; tfm__json_member(j, f->strings + *used); i++) {
        f->metadata[2 * i] = tfm__file_keep_string(f, used);
        if (!tfm__json_string(j, f->strings + *used))
            return tfm__file_fault(j, "the value is not a string", f->metadata[2 * i], err);
        f->metadata[2 * i + 1] = tfm__file_keep_string(f, used);
        sorted[i] = (void *)&f->metadata[2 * i];
    }
    tfm__sort(sorted, n, tfm__file_compare_names);
    for (i = 1; i < n; i++)
        if (tfm__file_compare_names(sorted[i - 1], sorted[i]) == 0)
            return tfm__fail(err, TFM_E_FORMAT, "duplicate metadata key '%s'",
                             *(const char **)sorted[i]);
    return TFM_OK;
}

/* Reads the header, n bytes at text, into f. f->pool and f->size must be set. */
static tfm_status tfm__file_read_header(tfm_safetensors *f, const char *text, int64_t n,
                                        tfm_error *err) {
    tfm__json j, ahead;
    int64_t members, room, used = 0, fault = tfm__utf8_fault(text, (size_t)n);
    int have_metadata = 0;
    if (fault >= 0)
        return tfm__fail(err, TFM_E_FORMAT, "safetensors header, byte %i: not UTF-8", fault);
    j.begin = j.at = text;
    j.end = text + n;
    /* first pass: check that the whole text is JSON, and count the members */
    ahead = j;
    members = tfm__json_count(&ahead, '{');
    if (members < 0) return tfm__file_fault(&ahead, "malformed JSON", "", err);
    tfm__json_space(&ahead);
    if (ahead.at != ahead.end) return tfm__file_fault(&ahead, "bytes after the object", "", err);
    /* a header of n bytes has room for so many entries; one more is allocated because a member that
       is no entry is written there before it is refused */
    room = tfm__min(members, n / TFM__LEAST_ENTRY + 1);
    TFM__TRY(TFM__NEW(&f->pool, room, &f->entries, err));
    TFM__TRY(TFM__NEW(&f->pool, room, &f->by_offset, err));
    TFM__TRY(TFM__NEW(&f->pool, room, &f->by_name, err));
    TFM__TRY(TFM__NEW(&f->pool, n + 1, &f->strings, err));
    /* second pass: read the members */
    while (tfm__json_member(&j, f->strings + used)) {
        tfm__file_entry *e = &f->entries[f->n_entries];
        if (strcmp(f->strings + used, "__metadata__") == 0) {
            if (have_metadata++) return tfm__file_fault(&j, "duplicate __metadata__", "", err);
            TFM__TRY(tfm__file_read_metadata(f, &j, &used, err));
            continue;
        }
        memset(e, 0, sizeof *e);
        e->name = tfm__file_keep_string(f, &used);
        TFM__TRY(tfm__file_read_entry(&j, e, f->strings + used, err));
        f->by_offset[f->n_entries] = f->by_name[f->n_entries] = e;
        f->n_entries++;
    }
    return TFM_OK;
}

/* Reports a file of size bytes whose header promises more. */
static tfm_status tfm__file_cut_short(int64_t size, int64_t promised, tfm_error *err) {
    return tfm__fail(err, TFM_E_FORMAT,
                     "the file is cut short: %i bytes, the header promises %i: copy or download it "
                     "again",
                     size, promised);
}

/* Checks that entries cover the data section, which begins at byte `first` of the file, without
   hole or overlap, and that names are unique. */
static tfm_status tfm__file_check_entries(tfm_safetensors *f, int64_t first, tfm_error *err) {
    int64_t i, at = 0;
    tfm__sort(f->by_offset, f->n_entries, tfm__file_compare_offsets);
    tfm__sort(f->by_name, f->n_entries, tfm__file_compare_names);
    for (i = 0; i < f->n_entries; i++) {
        const tfm__file_entry *e = (const tfm__file_entry *)f->by_offset[i];
        if (e->begin != at)
            return tfm__fail(err, TFM_E_FORMAT, "tensor '%s' begins at byte %i, expected %i (%s)",
                             e->name, e->begin, at, e->begin < at ? "overlap" : "hole");
        at = e->end;
        if (i && tfm__file_compare_names(f->by_name[i - 1], f->by_name[i]) == 0)
            return tfm__fail(err, TFM_E_FORMAT, "duplicate tensor name '%s'",
                             ((const tfm__file_entry *)f->by_name[i])->name);
    }
    if (at > f->size)
        return tfm__file_cut_short(first + f->size, at > INT64_MAX - first ? at : first + at, err);
    if (at != f->size)
        return tfm__fail(err, TFM_E_FORMAT,
                         "%i bytes follow the last tensor: the file has %i bytes, the header "
                         "promises %i",
                         f->size - at, first + f->size, first + at);
    return TFM_OK;
}

/* Names the kind of a file that is no safetensors file, and says what to run; "" if unknown. */
static const char *tfm__file_other_kind(const unsigned char *bytes, int64_t size) {
    static const struct {
        int64_t at;
        const char *magic, *kind;
    } kinds[] = {{0, "GGUF", "a GGUF file: run tools/convert.py on it"},
                 {0, "lmgg", "a ggml file: run tools/convert.py on it"},
                 {0, "version https://git-lfs", "a git-LFS pointer: run git lfs pull"},
                 {0, "PK\3\4", "a zip archive, such as a checkpoint: run tools/convert.py on it"},
                 {0, "\x80\x02", "a pickle of Python: run tools/convert.py on it"},
                 {0, "\x1f\x8b", "a gzip archive: run gunzip"},
                 {0, "\x28\xb5\x2f\xfd", "a zstd archive: run zstd -d"},
                 {0, "RIFF", "a sound: give the model first"},
                 {6, "TransformerSpec", "of CTranslate2: run tools/convert.py on its directory"},
                 {6, "WhisperSpec", "of CTranslate2: run tools/convert.py on its directory"},
                 {0, "{", "a text in JSON: give the file that ends in .safetensors"},
                 {0, "<", "an HTML page: the address or login was wrong, download it again"}};
    const unsigned char *end = bytes + size;
    size_t i;
    if (size >= 3 && memcmp(bytes, "\xEF\xBB\xBF", 3) == 0) bytes += 3; /* U+FEFF */
    while (bytes < end && (*bytes == ' ' || (*bytes >= '\t' && *bytes <= '\r'))) bytes++;
    for (i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (end - bytes >= kinds[i].at + (int64_t)strlen(kinds[i].magic) &&
            memcmp(bytes + kinds[i].at, kinds[i].magic, strlen(kinds[i].magic)) == 0)
            return kinds[i].kind;
    return "";
}

/* Reads header length, header and entries. f is zeroed, and f->pool is set. */
static tfm_status tfm__file_read_all(tfm_safetensors *f, const unsigned char *bytes, int64_t size,
                                     tfm_error *err) {
    const char *kind = tfm__file_other_kind(bytes, size);
    uint64_t n = size < 8 ? 0 : tfm__little_endian(bytes, 8);
    /* a header is an object; the first 8 bytes of another kind of file are usually a huge number */
    if (*kind && (size < 9 || n > 100000000 || !strchr("{ \t\n\r", bytes[8]) || !bytes[8]))
        return tfm__fail(err, TFM_E_FORMAT, "not a safetensors file, but %s", kind);
    if (size < 8)
        return tfm__fail(err, TFM_E_FORMAT,
                         "%i bytes are not a safetensors file: its header length alone takes 8",
                         size);
    if (n > 100000000)
        return tfm__fail(err, TFM_E_FORMAT,
                         "not a safetensors file: its header length would be over the limit of "
                         "100000000 (tools/convert.py makes one from a checkpoint)");
    if ((int64_t)n > size - 8) return tfm__file_cut_short(size, 8 + (int64_t)n, err);
    f->data = bytes + 8 + n;
    f->size = size - 8 - (int64_t)n;
    TFM__TRY(tfm__file_read_header(f, (const char *)bytes + 8, (int64_t)n, err));
    return tfm__file_check_entries(f, 8 + (int64_t)n, err);
}

/* Reads size bytes at data. On failure f is freed. */
static tfm_status tfm__file_open(tfm_safetensors **file, tfm_safetensors *f, const void *data,
                                 int64_t size, tfm_error *err) {
    tfm_status status = tfm__file_read_all(f, (const unsigned char *)data, size, err);
    if (status != TFM_OK) tfm_safetensors_free(f);
    else *file = f;
    return status;
}

TFM_DEF tfm_status tfm_safetensors_open(tfm_safetensors **file, const void *data, size_t size,
                                        const tfm_allocator *allocator, tfm_error *err) {
    tfm_safetensors *f;
    if (!file || !data) return tfm__fail(err, TFM_E_ARGUMENT, "a pointer is NULL");
#if SIZE_MAX > INT64_MAX /* else compilers warn of a comparison that is always false */
    if (size > INT64_MAX) return tfm__fail(err, TFM_E_OVERFLOW, "size is beyond 2^63");
#endif
    TFM__TRY(tfm__pool_make(allocator, sizeof *f, &f, err));
    return tfm__file_open(file, f, data, (int64_t)size, err);
}

#ifndef TRANSFORMER_NO_STDIO
/* Writes to a huge page, and returns 1 if that was slow. The first write to a page takes 0.1 ms, or
   4.5 ms if the host of a virtual machine has taken the memory back. Small pages mostly get memory
   that the host has not taken. */
static int tfm__huge_page_is_slow(char *page) {
#if defined(TFM__SYSTEM_CALLS) && defined(__x86_64__)
    const long clock = 228, of_thread = 3;
    int64_t begin[2] = {0, 0}, end[2] = {0, 0}; /* seconds and nanoseconds */
    (void)syscall(clock, of_thread, begin);
    *(volatile char *)page = 0;
    (void)syscall(clock, of_thread, end);
    return (end[0] - begin[0]) * 1000000000 + end[1] - begin[1] > TFM__SLOW_PAGE;
#else
    (void)page;
    return 0;
#endif
}

static tfm_status tfm__file_read_stream(FILE *stream, tfm__pool *pool, void **data, int64_t *size,
                                        tfm_error *err) {
    char first, *at;
    int64_t left, n, room;
    int is_huge, is_slow = 0;
    /* some systems open a directory, and only reading it fails */
    if (fread(&first, 1, 1, stream) != 1)
        return tfm__fail(err, TFM_E_IO, "empty, or cannot be read");
    if (fseek(stream, 0, SEEK_END) != 0) return tfm__fail(err, TFM_E_IO, "cannot seek");
#if defined(_WIN32)
    *size = _ftelli64(stream);
#else
    *size = (int64_t)ftell(stream);
#endif
    if (*size < 0 || fseek(stream, 0, SEEK_SET) != 0)
        return tfm__fail(err, TFM_E_IO, "cannot tell its size");
    room = *size;
    is_huge = tfm__is_huge(&pool->allocator, room);
    n = room % TFM__HUGE_PAGE;
    if (is_huge && n > TFM__HUGE_PAGE / 2) room += TFM__HUGE_PAGE - n; /* one fault, not hundreds */
    TFM__TRY(tfm__pool_take(pool, room, 1, data, err));
    for (at = (char *)*data, left = *size; left; at += n, left -= n) {
        n = tfm__min(left, TFM__HUGE_PAGE);
        if (is_huge && !is_slow && (is_slow = tfm__huge_page_is_slow(at)) != 0)
            tfm__advise(at, left, TFM__SMALL_PAGES);
        if (is_slow) tfm__advise(at, n, TFM__POPULATE);
        if (fread(at, 1, (size_t)n, stream) != (size_t)n)
            return tfm__fail(err, TFM_E_IO, "fewer than its %i bytes could be read", *size);
    }
    /* the system may join small pages to huge ones later */
    if (is_slow) tfm__advise(*data, *size, TFM__HUGE_PAGES);
    return TFM_OK;
}

/* Opens a file to read. On Windows fopen would read path in the system's code page, so only a path
   that is not UTF-8, or very long, goes there. */
static FILE *tfm__file_fopen(const char *path) {
#if defined(_WIN32)
    wchar_t wide[1024], *to = wide;
    size_t i, n = 1, size = strlen(path);
    uint32_t c = 0;
    for (i = 0; i < size && n && to < wide + 1022; i += n) {
        n = (size_t)tfm__utf8_next(path + i, size - i, &c);
        if (c > 0xFFFF) *to++ = (wchar_t)(0xD7C0 + (c >> 10)), c = 0xDC00 | (c & 0x3FF);
        *to++ = (wchar_t)c;
    }
    *to = 0;
    if (i == size) return _wfopen(wide, L"rb");
#endif
    return fopen(path, "rb");
}

/* Reads the whole file at path into memory of the pool. */
static tfm_status tfm__file_read_path(const char *path, tfm__pool *pool, void **data, int64_t *size,
                                      tfm_error *err) {
    FILE *stream = tfm__file_fopen(path);
    tfm_status status;
    if (!stream) return tfm__fail(err, TFM_E_IO, "cannot be opened");
    status = tfm__file_read_stream(stream, pool, data, size, err);
    fclose(stream);
    return status;
}

/* Puts path before the message of a call that failed, unless memory was missing. Returns status. */
static tfm_status tfm__file_named(tfm_status status, const char *path, tfm_error *err) {
    if (status != TFM_OK && status != TFM_E_MEMORY && err) {
        tfm_error unnamed = *err;
        tfm__fail(err, status, "%s: %m", path, unnamed.text);
    }
    return status;
}

TFM_DEF tfm_status tfm_safetensors_open_file(tfm_safetensors **file, const char *path,
                                             const tfm_allocator *allocator, tfm_error *err) {
    tfm_safetensors *f;
    void *data;
    int64_t size;
    tfm_status status;
    if (!file || !path) return tfm__fail(err, TFM_E_ARGUMENT, "file or path is NULL");
    TFM__TRY(tfm__pool_make(allocator, sizeof *f, &f, err));
    status = tfm__file_read_path(path, &f->pool, &data, &size, err);
    if (status == TFM_OK) status = tfm__file_open(file, f, data, size, err);
    else tfm_safetensors_free(f);
    return tfm__file_named(status, path, err);
}
#endif

TFM_DEF void tfm_safetensors_free(tfm_safetensors *file) {
    if (file) tfm__pool_free(file->pool);
}

TFM_DEF int64_t tfm_safetensors_count(const tfm_safetensors *file) {
    return file ? file->n_entries : 0;
}

/* Returns entry i in the order of the data, or NULL if there is none. */
static const tfm__file_entry *tfm__file_entry_at(const tfm_safetensors *f, int64_t i) {
    return f && i >= 0 && i < f->n_entries ? (const tfm__file_entry *)f->by_offset[i] : NULL;
}

TFM_DEF const char *tfm_safetensors_name(const tfm_safetensors *file, int64_t i) {
    const tfm__file_entry *e = tfm__file_entry_at(file, i);
    return e ? e->name : NULL;
}

static tfm_tensor tfm__file_tensor(const tfm_safetensors *f, const tfm__file_entry *e) {
    return tfm_tensor_make((void *)(f->data + e->begin), e->dtype, e->rank, e->dims);
}

TFM_DEF tfm_tensor tfm_safetensors_tensor(const tfm_safetensors *file, int64_t i) {
    const tfm__file_entry *e = tfm__file_entry_at(file, i);
    return e ? tfm__file_tensor(file, e) : tfm_tensor_make(NULL, TFM_DTYPE_F32, 0, NULL);
}

/* Searches the names, then the offsets, because an entry is known to callers by its place there. */
TFM_DEF int64_t tfm_safetensors_find(const tfm_safetensors *file, const char *name) {
    int64_t n = tfm_safetensors_count(file), i;
    if (!n || !name) return -1;
    i = tfm__lower_bound(file->by_name, n, &name, tfm__file_compare_names);
    if (i == n || tfm__file_compare_names(file->by_name[i], &name) != 0) return -1;
    return tfm__lower_bound(file->by_offset, n, file->by_name[i], tfm__file_compare_offsets);
}

/* Returns whether some tensor's name begins with prefix. */
static int tfm__file_has_prefix(const tfm_safetensors *f, const char *prefix) {
    int64_t i = tfm__lower_bound(f->by_name, f->n_entries, &prefix, tfm__file_compare_names);
    return i < f->n_entries &&
           strncmp(((const tfm__file_entry *)f->by_name[i])->name, prefix, strlen(prefix)) == 0;
}

TFM_DEF const char *tfm_safetensors_metadata(const tfm_safetensors *file, const char *key) {
    int64_t i;
    for (i = 0; file && key && i < file->n_metadata; i++)
        if (strcmp(file->metadata[2 * i], key) == 0) return file->metadata[2 * i + 1];
    return NULL;
}

TFM_DEF const char *tfm_safetensors_metadata_key(const tfm_safetensors *file, int64_t i) {
    return file && i >= 0 && i < file->n_metadata ? file->metadata[2 * i] : NULL;
}

/* Converts n elements of any integer type to I32 or I64. It is an error if one does not fit. */
static tfm_status tfm__file_read_integers(const tfm__file_entry *e, const unsigned char *bytes,
                                          int64_t n, tfm_dtype want, void *out, tfm_error *err) {
    int width = tfm__dtypes[e->dtype].bits / 8, pass;
    int64_t i;
    for (pass = 0; pass < 2; pass++) /* the first pass checks all values, the second writes them */
        for (i = 0; i < n; i++) {
            uint64_t raw = tfm__little_endian(bytes + i * width, width);
            uint64_t sign = (uint64_t)1 << (8 * width - 1);
            int negative = tfm__dtypes[e->dtype].kind == 'i' && (raw & sign);
            int64_t value = negative ? -(int64_t)(~(raw | (0 - sign))) - 1 : (int64_t)raw;
            if ((!negative && raw > (uint64_t)INT64_MAX) ||
                (want == TFM_DTYPE_I32 && (value < INT32_MIN || value > INT32_MAX)))
                return tfm__fail(err, TFM_E_OVERFLOW, "tensor '%s': element %i does not fit %s",
                                 e->name, i, tfm_dtype_name(want));
            if (pass && want == TFM_DTYPE_I32) ((int32_t *)out)[i] = (int32_t)value;
            if (pass && want == TFM_DTYPE_I64) ((int64_t *)out)[i] = value;
        }
    return TFM_OK;
}

TFM_DEF tfm_status tfm_safetensors_read(const tfm_safetensors *file, int64_t i, tfm_dtype want,
                                        void *out, tfm_error *err) {
    const tfm__file_entry *e;
    const unsigned char *bytes;
    int64_t n, size, width;
    char kind;
    if (!file || !out) return tfm__fail(err, TFM_E_ARGUMENT, "file or out is NULL");
    e = tfm__file_entry_at(file, i);
    if (!e)
        return tfm__fail(err, TFM_E_ARGUMENT, "no entry %i: the file has %i", i, file->n_entries);
    bytes = file->data + e->begin;
    size = e->end - e->begin;
    n = size * 8 / tfm__dtypes[e->dtype].bits;
    kind = tfm__dtypes[e->dtype].kind;
    if (want == TFM_DTYPE_F32 && kind == 'w') {
        tfm__widen((float *)out, bytes, e->dtype, n);
        return TFM_OK;
    }
    if ((want == TFM_DTYPE_I32 || want == TFM_DTYPE_I64) && (kind == 'i' || kind == 'u'))
        return tfm__file_read_integers(e, bytes, n, want, out, err);
    if (want != e->dtype)
        return tfm__fail(err, TFM_E_DTYPE, "tensor '%s' is %s, which is not read as %s", e->name,
                         tfm_dtype_name(e->dtype), tfm_dtype_name(want));
    memcpy(out, bytes, (size_t)size);
    /* on big-endian hosts the bytes of a number change their order: 2, 4 or 8 of them */
    width = e->dtype == TFM_DTYPE_C64 ? 4 : tfm__dtypes[e->dtype].bits / 8;
    for (i = 0; width > 1 && !tfm__is_little_endian() && i < size; i++)
        ((unsigned char *)out)[i] = bytes[i ^ (width - 1)];
    return TFM_OK;
}

/* >>config ========================================================================================
   23. THE MODEL'S CONFIG
   Two tables have a row for each field: of tfm_config, and of the decode options that a file may
   state. The reader, the defaults, and the checks of ids, shapes and sizes use these rows, so a new
   field needs one row and a member of the public struct. Relies on JSON.
   ============================================================================================== */

/* What a config says. Sizes are -1 where it does not state them. */
typedef struct tfm__config_stated {
    tfm_config config;
    tfm_decode_options decoding;
    int32_t packed;             /* the layout of a packed file; -1: none */
    int32_t decoder_activation; /* -1: activation */
} tfm__config_stated;

/* Reports what is wrong with the config. The first argument after err is a literal. */
#define TFM__FAIL_CONFIG(err, ...) tfm__fail(err, TFM_E_CONFIG, "transformer.config: " __VA_ARGS__)

#define TFM__BEYOND 1e30 /* numbers of a file are smaller */

/* What the value of a field may be. Scalars come first. */
enum {
    TFM__FIELD_INT,
    TFM__FIELD_NUMBER,
    TFM__FIELD_CHOICE, /* one of words, stored as its index */
    TFM__FIELD_SCALE,  /* a number, or the only word, which is stored as TFM__BEYOND */
    TFM__FIELD_IDS,
    TFM__FIELD_SEQUENCES, /* lists of ids */
    TFM__FIELD_ROWS,      /* lists of `most` numbers each, which begin with a layer */
    TFM__FIELD_LANGUAGES,
    TFM__FIELD_CODE, /* of a language */
    TFM__FIELD_DECODING
};

/* What a value must fulfil beyond its kind. Sizes come last. */
enum {
    TFM__RULE_NONE,
    TFM__RULE_NOT_0,
    TFM__RULE_POSITIVE,
    TFM__RULE_SRC_ID, /* below the size of that vocabulary */
    TFM__RULE_TGT_ID,
    TFM__RULE_SHAPE,  /* equal to what the shapes of the tensors say */
    TFM__RULE_PADDED, /* and panels are padded: shapes of a packed file do not tell the size */
    TFM__RULE_STATED  /* and without a value a packed file cannot be read */
};

typedef struct tfm__config_field {
    const char *name;
    size_t at, size; /* offset and bytes of the member */
    size_t count;    /* offset of the number of IDS, ROWS or SEQUENCES */
    int kind, rule;
    double otherwise;               /* the default of a scalar */
    int32_t least, most;            /* the range of a decode option */
    const struct tfm__words *words; /* of a choice; NULL: none */
} tfm__config_field;

/* clang-format off */
#define TFM__FIELD(name, type, member, kind, rule, otherwise, least, most, words)                  \
    {name, offsetof(type, member), sizeof ((type *)0)->member, 0, TFM__FIELD_##kind,               \
     TFM__RULE_##rule, otherwise, least, most, words}
#define TFM__CONFIG(name, member, kind, rule, otherwise, words)                                    \
    TFM__FIELD(#name, tfm__config_stated, config.member, kind, rule, otherwise, 0, 0, words)
#define TFM__SAME(name, kind, rule, otherwise) TFM__CONFIG(name, name, kind, rule, otherwise, NULL)
#define TFM__INT(name, rule) TFM__SAME(name, INT, rule, -1)
#define TFM__LIST(name, type, member, count, kind, rule, most)                                     \
    {#name, offsetof(type, member), 0, offsetof(type, count), TFM__FIELD_##kind,                   \
     TFM__RULE_##rule, 0, 0, most, NULL}
#define TFM__ROWS(name, width)                                                                     \
    TFM__LIST(name, tfm__config_stated, config.name, config.n_##name, ROWS, NONE, width)
#define TFM__CHOICE(name, member, words)                                                           \
    TFM__CONFIG(name, member, CHOICE, NONE, 0, &tfm__##words##_words)
static const tfm__config_field tfm__config_fields[] = {
    TFM__SAME(n_heads, INT, NOT_0, 0), TFM__INT(n_encoder_layers, SHAPE),
    TFM__INT(n_decoder_layers, SHAPE), TFM__INT(d_model, STATED), TFM__INT(d_ff, STATED),
    TFM__INT(d_ff_decoder, PADDED), TFM__INT(d_key, STATED), TFM__INT(d_value, STATED),
    TFM__INT(d_input, PADDED), TFM__INT(d_memory, PADDED), TFM__INT(src_vocab_size, STATED),
    TFM__INT(tgt_vocab_size, STATED), TFM__INT(relative_buckets, SHAPE),
    TFM__CHOICE(norm, norm_order, norm_order), TFM__CHOICE(layer_norm, norm_kind, norm_kind),
    TFM__SAME(layer_norm_eps, NUMBER, POSITIVE, 0), /* 0: that of the kind of norm */
    TFM__CHOICE(activation, activation, activation), TFM__CHOICE(positions, positions, position),
    TFM__SAME(position_offset, INT, NONE, 0), TFM__SAME(position_base, NUMBER, POSITIVE, 10000),
    TFM__CHOICE(position_divisor, position_divisor_half, divisor),
    TFM__CHOICE(position_precision, position_double, precision),
    TFM__CHOICE(pad_position, pad_position_zero, pad),
    TFM__CONFIG(embedding_scale, embedding_scale, SCALE, NONE, 1, &tfm__scale_words),
    TFM__SAME(attention_scale, NUMBER, NOT_0, 0),
    TFM__SAME(relative_max_distance, INT, NONE, TFM__MAX_DISTANCE), TFM__INT(src_pad, SRC_ID),
    TFM__INT(tgt_pad, TGT_ID), TFM__INT(src_unk, SRC_ID), TFM__INT(tgt_unk, TGT_ID),
    TFM__INT(src_start, SRC_ID), TFM__INT(src_end, SRC_ID), TFM__INT(start, TGT_ID),
    TFM__INT(end, TGT_ID), TFM__INT(forced, TGT_ID),
    TFM__CHOICE(start_embedding, start_embedding_zero, start),
    TFM__LIST(suppressed, tfm__config_stated, config.suppressed, config.n_suppressed, IDS, TGT_ID,
              0),
    TFM__SAME(languages, LANGUAGES, NONE, 0), TFM__CHOICE(src_language, src_language, language),
    TFM__CHOICE(tgt_language, tgt_language_forced, forced), TFM__CHOICE(src_text, src_text, text),
    TFM__CHOICE(tgt_text, tgt_text, text), TFM__SAME(byte_offset, INT, NONE, 0),
    TFM__CHOICE(prefix_space, prefix_space, space),
    TFM__CHOICE(trailing_space, trailing_space, trailing), TFM__CHOICE(clean_up, clean_up, clean),
    TFM__CHOICE(sentences, sentences, sentences), TFM__SAME(source_language, CODE, NONE, 0),
    TFM__SAME(target_language, CODE, NONE, 0), TFM__SAME(shortlist_first, INT, NONE, 0),
    TFM__ROWS(alignment_heads, 2), TFM__INT(n_kv_heads, PADDED),
    TFM__INT(n_kv_heads_decoder, PADDED),
    TFM__ROWS(encoder_windows, 3), TFM__ROWS(decoder_windows, 3), TFM__INT(d_rotary, SHAPE),
    TFM__CHOICE(rotary_layout, rotary_layout, rotary),
    TFM__CHOICE(cross_attention, cross_attention, cross),
    TFM__SAME(attention_cap, NUMBER, POSITIVE, 0), TFM__SAME(logit_cap, NUMBER, POSITIVE, 0),
    TFM__FIELD("packed", tfm__config_stated, packed, INT, NONE, -1, 0, 0, NULL),
    TFM__FIELD("decoder_activation", tfm__config_stated, decoder_activation, CHOICE, NONE, -1, 0, 0,
               &tfm__activation_words),
    TFM__FIELD("decoding", tfm__config_stated, decoding, DECODING, NONE, 0, 0, 0, NULL)};

#define TFM__DECODE(member, kind, least, most, words)                                              \
    TFM__FIELD(#member, tfm_decode_options, member, kind, NONE, 0, least, most, words)
#define TFM__UP_TO(member, kind, most) TFM__DECODE(member, kind, 0, most, NULL)
#define TFM__IDS(member, kind)                                                                     \
    TFM__LIST(member, tfm_decode_options, member, n_##member, kind, TGT_ID, 0)
static const tfm__config_field tfm__decode_fields[] = {
    TFM__UP_TO(beam, INT, INT32_MAX), TFM__DECODE(length_penalty, NUMBER, -100, 100, NULL),
    TFM__UP_TO(patience, NUMBER, 1000000), TFM__UP_TO(no_unknown, INT, 1),
    TFM__DECODE(stop, CHOICE, 0, TFM_STOP_COUNT - 1, &tfm__stop_words),
    TFM__UP_TO(max_length, INT, INT32_MAX), TFM__UP_TO(min_length, INT, INT32_MAX),
    TFM__UP_TO(no_repeat_ngram, INT, INT32_MAX), TFM__UP_TO(repetition_penalty, NUMBER, 1000000),
    TFM__DECODE(repetition, CHOICE, 0, TFM_REPETITION_COUNT - 1, &tfm__repetition_words),
    TFM__UP_TO(force_end, INT, 1), TFM__UP_TO(no_source_ngram, INT, INT32_MAX),
    TFM__IDS(suppressed, IDS), TFM__IDS(suppressed_sequences, SEQUENCES), TFM__IDS(end_ids, IDS),
    TFM__IDS(shortlist, IDS),
    TFM__UP_TO(coverage_penalty, NUMBER, 1000000), TFM__UP_TO(n_best, INT, INT32_MAX),
    TFM__UP_TO(samples, INT, INT32_MAX), TFM__UP_TO(temperature, NUMBER, 1000000),
    TFM__UP_TO(top_k, INT, INT32_MAX), TFM__UP_TO(top_p, NUMBER, 1),
    TFM__UP_TO(alternatives, INT, INT32_MAX), TFM__UP_TO(prefix_bias, NUMBER, 1),
    TFM__UP_TO(lexical_shortlist, INT, 1), TFM__UP_TO(min_alternative_prob, NUMBER, 1),
    TFM__UP_TO(keep_end, INT, 1), TFM__UP_TO(truncate, INT, INT32_MAX),
    TFM__UP_TO(skip_errors, INT, 1), TFM__UP_TO(attention_layer, INT, INT32_MAX),
    TFM__UP_TO(attention_head, INT, INT32_MAX)};
/* clang-format on */
/* Keys of decoding in files of versions up to 0.6.0, and what they are now. */
static const char *const tfm__decode_old_keys[][2] = {
    {"forbidden", "suppressed"}, {"forbidden_sequences", "suppressed_sequences"}};
enum {
    TFM__N_OLD_KEYS = sizeof tfm__decode_old_keys / sizeof *tfm__decode_old_keys,
    TFM__N_CONFIG_FIELDS = sizeof tfm__config_fields / sizeof *tfm__config_fields,
    TFM__N_DECODE_FIELDS = sizeof tfm__decode_fields / sizeof *tfm__decode_fields
};

/* Returns the value that a scalar has in the struct at base. Its member is a double, an int32_t, or
   an enum, which some compilers store in a byte. */
static double tfm__config_get(const tfm__config_field *f, const void *base) {
    const char *at = (const char *)base + f->at;
    double number;
    int32_t integer;
    if (f->size == 1) return *(const unsigned char *)at;
    if (f->size == sizeof number) return memcpy(&number, at, sizeof number), number;
    return memcpy(&integer, at, sizeof integer), integer;
}

static void tfm__config_put(const tfm__config_field *f, void *base, double value) {
    char *at = (char *)base + f->at;
    if (f->size == sizeof value) {
        memcpy(at, &value, sizeof value);
    } else {
        int32_t integer = (int32_t)value;
        if (f->size == 1) *at = (char)integer;
        else memcpy(at, &integer, sizeof integer);
    }
}

static tfm_status tfm__check_range(const char *where, const char *name, double value, int32_t least,
                                   int32_t most, tfm_error *err) {
    if (value >= least && value <= most) return TFM_OK; /* NaN is not */
    return tfm__fail(err, *where ? TFM_E_CONFIG : TFM_E_ARGUMENT,
                     "%s%s is out of range: it takes %d to %d", where, name, least, most);
}

/* Returns how many tokens a translation has at most, if no option says it. */
static int64_t tfm__usual_length(int64_t source_length) { return 2 * source_length + 16; }

/* Returns how many hypotheses of a sentence run or are returned with these options. */
static int64_t tfm__decode_hypotheses(const tfm_decode_options *o) {
    int64_t n = tfm__max(1, o->beam) * tfm__max(1, o->alternatives);
    return tfm__max(n, tfm__max(o->samples, o->n_best));
}

static int tfm__decode_needs_attention(const tfm_decode_options *o) {
    return o->coverage_penalty > 0 || o->attention_layer || o->attention_head;
}

/* Checks all options that depend on the model alone. Messages begin with where, "" in a call. */
static tfm_status tfm__check_decode_fields(const tfm_decode_options *o, const tfm_config *c,
                                           const char *where, tfm_error *err) {
    const tfm_status status = *where ? TFM_E_CONFIG : TFM_E_ARGUMENT;
    const tfm__config_field *f = tfm__decode_fields;
    int64_t beam = tfm__max(1, o->beam), best = 1;
    for (; f < tfm__decode_fields + TFM__N_DECODE_FIELDS; f++)
        if (f->kind < TFM__FIELD_IDS)
            TFM__TRY(
                tfm__check_range(where, f->name, tfm__config_get(f, o), f->least, f->most, err));
    if (o->max_length && o->min_length > o->max_length)
        return tfm__fail(err, status,
                         "%smin_length is %d, max_length %d: min_length must not be larger", where,
                         o->min_length, o->max_length);
    if (beam > 1 && !o->alternatives)
        best = tfm__max(beam, (int64_t)floor((double)beam * o->patience + 0.5));
    if (o->n_best < 0 || o->n_best > best)
        return tfm__fail(err, status,
                         "%sn_best is %d, expected 0 to %d: a beam of %d gives so many, raise beam",
                         where, o->n_best, (int32_t)tfm__min(INT32_MAX, best), (int32_t)beam);
    TFM__TRY(tfm__check_range(where, "attention_layer", o->attention_layer, 0, c->n_decoder_layers,
                              err));
    TFM__TRY(tfm__check_range(where, "attention_head", o->attention_head, 0, c->n_heads, err));
    if (o->samples && (o->beam > 1 || o->alternatives))
        return tfm__fail(err, status, "%ssamples, and a beam or alternatives: choose one", where);
    if (o->prefix_bias > 0 && (o->samples || o->alternatives))
        return tfm__fail(err, status,
                         "%sprefix_bias needs beam search: leave out samples and alternatives",
                         where);
    if (o->lexical_shortlist && !c->has_shortlist)
        return tfm__fail(err, status,
                         "%slexical_shortlist: the model has no tensors 'shortlist.offsets' and "
                         "'shortlist.ids'",
                         where);
    if (o->lexical_shortlist && o->n_shortlist)
        return tfm__fail(err, status, "%sshortlist, lexical_shortlist: choose one", where);
    return TFM_OK;
}

typedef struct tfm__config_reader {
    tfm__json json;  /* at the next value of a text that was checked to be JSON */
    tfm__pool *pool; /* the model's, which owns the lists */
    char *spare;     /* room for any string of the text */
    tfm_error *err;
} tfm__config_reader;

/* Returns the value that a word stands for, or -1. */
static int tfm__config_choice(const tfm__words *words, const char *word) {
    int i;
    for (i = 0; words && i < words->n_spellings; i++)
        if (strcmp(words->words[i], word) == 0) return i % words->n;
    return -1;
}

/* Reads an integer of at least 0 that fits an int32_t: every id and size. */
static int tfm__config_int32(tfm__json *j, int32_t *value) {
    int64_t whole;
    if (!tfm__json_int64(j, &whole) || whole > INT32_MAX) return 0;
    *value = (int32_t)whole;
    return 1;
}

/* Reads [[id, ...], ...], or a flat list as the only one. The ids of all lists are adjacent. */
static tfm_status tfm__config_lists(tfm__config_reader *r, const char *name, int is_flat,
                                    tfm_ids **lists, int32_t *n_lists) {
    tfm__json *j = &r->json, ahead = *j;
    const char *what = is_flat ? "ids" : "lists of ids";
    int64_t n = tfm__json_count(&ahead, '['), n_ids = is_flat ? n : 0, k;
    int32_t *ids;
    tfm_ids *list;
    if (n < 0) return TFM__FAIL_CONFIG(r->err, "'%s' is not a list of %s", name, what);
    if (is_flat) n = 1;
    for (ahead = *j; !is_flat && tfm__json_element(&ahead); n_ids += k) {
        k = tfm__json_count(&ahead, '[');
        if (k < 1) return TFM__FAIL_CONFIG(r->err, "'%s' is not a list of %s", name, what);
    }
    TFM__TRY(TFM__NEW(r->pool, n, &list, r->err));
    TFM__TRY(TFM__NEW(r->pool, n_ids, &ids, r->err));
    *lists = list, *n_lists = (int32_t)n;
    for (k = 0; is_flat ? k < 1 : tfm__json_element(j); k++, list++)
        for (list->data = ids, list->n = 0; tfm__json_element(j); list->n++)
            if (!tfm__config_int32(j, ids++))
                return TFM__FAIL_CONFIG(r->err, "'%s' is not a list of %s", name, what);
    return TFM_OK;
}

enum { TFM__CODE = 32 }; /* bytes of a language's code, with its terminating zero */
enum { TFM__LANGUAGES = 4096, TFM__HEADS_LISTED = 1024 }; /* at most: searched one by one */

/* Reads {"code": id, ...}. */
static tfm_status tfm__config_languages(tfm__config_reader *r, tfm_config *c) {
    tfm__json ahead = r->json;
    tfm_language *languages;
    char *codes;
    int64_t n = tfm__json_count(&ahead, '{');
    int32_t i, k;
    if (n < 0) return TFM__FAIL_CONFIG(r->err, "'languages' is not an object");
    if (n > TFM__LANGUAGES) return TFM__FAIL_CONFIG(r->err, "'languages' has over 4096");
    TFM__TRY(TFM__NEW(r->pool, n, &languages, r->err));
    TFM__TRY(TFM__NEW(r->pool, n * TFM__CODE, &codes, r->err));
    c->languages = languages;
    for (i = 0; tfm__json_member(&r->json, r->spare); i++) {
        if (!*r->spare || strlen(r->spare) >= TFM__CODE)
            return TFM__FAIL_CONFIG(r->err,
                                    "'languages' has a code that is empty or over 31 bytes");
        for (k = 0; k < i; k++)
            if (strcmp(languages[k].code, r->spare) == 0)
                return TFM__FAIL_CONFIG(r->err, "'languages' has the duplicate code %s", r->spare);
        languages[i].code = strcpy(codes + (int64_t)i * TFM__CODE, r->spare);
        if (!tfm__config_int32(&r->json, &languages[i].id))
            return TFM__FAIL_CONFIG(r->err, "'languages' has no id for %s", r->spare);
    }
    c->n_languages = i;
    return TFM_OK;
}

/* Reads the code of a language. */
static tfm_status tfm__config_code(tfm__config_reader *r, const char *name, const char **code) {
    char *copy;
    if (!tfm__json_string(&r->json, r->spare) || !*r->spare || strlen(r->spare) >= TFM__CODE)
        return TFM__FAIL_CONFIG(r->err, "'%s' is not the code of a language, of at most 31 bytes",
                                name);
    TFM__TRY(TFM__NEW(r->pool, TFM__CODE, &copy, r->err));
    *code = strcpy(copy, r->spare);
    return TFM_OK;
}

/* Reads a scalar into the struct at base. At a fault the message says what was expected. */
static tfm_status tfm__config_scalar(tfm__config_reader *r, const tfm__config_field *f,
                                     void *base) {
    double value;
    tfm__json_space(&r->json);
    if (f->kind == TFM__FIELD_INT) {
        int32_t whole;
        if (!tfm__config_int32(&r->json, &whole))
            return TFM__FAIL_CONFIG(r->err, "'%s' is not an integer from 0 to 2147483647", f->name);
        value = whole;
    } else if (f->kind != TFM__FIELD_NUMBER && *r->json.at == '"') {
        int choice;
        (void)tfm__json_string(&r->json, r->spare);
        choice = tfm__config_choice(f->words, r->spare);
        if (choice < 0)
            return TFM__FAIL_CONFIG(r->err, "'%s' is '%s', expected %w", f->name, r->spare,
                                    f->words);
        value = f->kind == TFM__FIELD_SCALE ? TFM__BEYOND : choice;
    } else if (f->kind == TFM__FIELD_CHOICE) {
        return TFM__FAIL_CONFIG(r->err, "'%s' is not one of %w", f->name, f->words);
    } else {
        tfm__json_decimal n;
        if (!tfm__json_number(&r->json, &n))
            return TFM__FAIL_CONFIG(r->err, "'%s' is not a number", f->name);
        if (n.n_digits > TFM__EXACT_DIGITS)
            return TFM__FAIL_CONFIG(r->err, "'%s' has %i digits, at most %i", f->name, n.n_digits,
                                    (int64_t)TFM__EXACT_DIGITS);
        value = tfm__json_to_double(&n);
        if (!(value < TFM__BEYOND && value > -TFM__BEYOND))
            return TFM__FAIL_CONFIG(r->err, "'%s' is not between -1e30 and 1e30", f->name);
    }
    if (f->rule == TFM__RULE_NOT_0 && value == 0)
        return TFM__FAIL_CONFIG(r->err, "'%s' is 0, expected another number", f->name);
    if (f->rule == TFM__RULE_POSITIVE && !(value > 0))
        return TFM__FAIL_CONFIG(r->err, "'%s' must be more than 0", f->name);
    tfm__config_put(f, base, value);
    return TFM_OK;
}

static tfm_status tfm__config_object(tfm__config_reader *r, const tfm__config_field *fields, int n,
                                     const char *inside, void *base);

/* Reads a value of any kind into the struct at base. */
static tfm_status tfm__config_value(tfm__config_reader *r, const tfm__config_field *f, void *base) {
    tfm__config_stated *stated = (tfm__config_stated *)base;
    void *at = (char *)base + f->at, *count = (char *)base + f->count;
    tfm__json ahead = r->json;
    tfm_ids *lists = NULL;
    int32_t i, n = 0;
    if (f->kind == TFM__FIELD_IDS || f->kind == TFM__FIELD_SEQUENCES || f->kind == TFM__FIELD_ROWS)
        TFM__TRY(tfm__config_lists(r, f->name, f->kind == TFM__FIELD_IDS, &lists, &n));
    switch (f->kind) {
    case TFM__FIELD_IDS:
        *(const int32_t **)at = lists->data;
        *(int32_t *)count = lists->n;
        return TFM_OK;
    case TFM__FIELD_SEQUENCES:
        *(const tfm_ids **)at = lists;
        *(int32_t *)count = n;
        return TFM_OK;
    case TFM__FIELD_ROWS:
        for (i = 0; i < n; i++)
            if (lists[i].n != f->most)
                return TFM__FAIL_CONFIG(r->err, "'%s' is not a list of [layer, %s]", f->name,
                                        f->most == 2 ? "head" : "left, right");
        if (n > TFM__HEADS_LISTED)
            return TFM__FAIL_CONFIG(r->err, "'%s' has %d heads, at most %d can be listed", f->name,
                                    n, TFM__HEADS_LISTED);
        *(int32_t *)count = n;
        *(const int32_t **)at = n ? lists->data : NULL;
        return TFM_OK;
    case TFM__FIELD_LANGUAGES: return tfm__config_languages(r, &stated->config);
    case TFM__FIELD_CODE: return tfm__config_code(r, f->name, (const char **)at);
    case TFM__FIELD_DECODING:
        if (tfm__json_count(&ahead, '{') < 0)
            return TFM__FAIL_CONFIG(r->err, "'%s' is not an object", f->name);
        return tfm__config_object(r, tfm__decode_fields, TFM__N_DECODE_FIELDS, "decoding: ", at);
    default: return tfm__config_scalar(r, f, base);
    }
}

/* Reads an object by a table of n fields. Messages about its keys begin with inside. */
static tfm_status tfm__config_object(tfm__config_reader *r, const tfm__config_field *fields, int n,
                                     const char *inside, void *base) {
    unsigned char seen[TFM__N_CONFIG_FIELDS] = {0}; /* the longer of the two tables */
    int k;
    while (tfm__json_member(&r->json, r->spare)) {
        const char *key = r->spare;
        for (k = 0; *inside && k < TFM__N_OLD_KEYS; k++)
            if (strcmp(key, tfm__decode_old_keys[k][0]) == 0) key = tfm__decode_old_keys[k][1];
        for (k = 0; k < n; k++)
            if (strcmp(fields[k].name, key) == 0) break;
        if (k == n || seen[k]++)
            return TFM__FAIL_CONFIG(r->err, "%s'%s' is %s", inside, r->spare,
                                    k == n ? "not a known field" : "a duplicate key");
        TFM__TRY(tfm__config_value(r, &fields[k], base));
    }
    return TFM_OK;
}

/* Reads the JSON text, and checks what fields need of each other. Lists are allocated in pool. */
static tfm_status tfm__config_read(const char *text, tfm__pool *pool, tfm__config_stated *stated,
                                   tfm_error *err) {
    tfm_config *c = &stated->config;
    tfm__config_reader r;
    tfm__json ahead;
    int k;
    int64_t n;
    r.json.begin = r.json.at = text;
    r.json.end = text + strlen(text);
    r.pool = pool;
    r.err = err;
    ahead = r.json;
    n = tfm__json_count(&ahead, '{');
    if (n >= 0) tfm__json_space(&ahead);
    if (n < 0 || ahead.at != ahead.end)
        return TFM__FAIL_CONFIG(err, "malformed JSON at byte %i",
                                (int64_t)(ahead.at - ahead.begin));
    TFM__TRY(TFM__NEW(pool, r.json.end - text + 1, &r.spare, err));
    memset(stated, 0, sizeof *stated);
    for (k = 0; k < TFM__N_CONFIG_FIELDS; k++)
        if (tfm__config_fields[k].kind < TFM__FIELD_IDS)
            tfm__config_put(&tfm__config_fields[k], stated, tfm__config_fields[k].otherwise);
    TFM__TRY(tfm__config_object(&r, tfm__config_fields, TFM__N_CONFIG_FIELDS, "", stated));
    if (!c->n_heads) return TFM__FAIL_CONFIG(err, "'n_heads' is missing");
    if (c->layer_norm_eps == 0) c->layer_norm_eps = tfm__norm_default_eps(c->norm_kind);
    k = stated->decoder_activation;
    c->decoder_activation = k < 0 ? c->activation : (tfm_activation)k;
    if (!c->n_languages && (c->src_language || c->tgt_language_forced))
        return TFM__FAIL_CONFIG(err, "'languages' is missing");
    if (c->d_rotary > 0 && c->d_rotary % 2)
        return TFM__FAIL_CONFIG(err, "'d_rotary' is %d, which is odd: columns turn in pairs",
                                c->d_rotary);
    if (c->src_text == TFM_TEXT_KIND_PIECES)
        return TFM__FAIL_CONFIG(err, "'src_text' is pieces, which only tgt_text can be");
    return TFM_OK;
}

/* >>model =========================================================================================
   24. WHAT A MODEL HAS
   The parts of a model, and how the loader finds the tensors of a file. The sections after this one
   load and use the parts. A part of which only a name stands here, such as tfm__sentencepiece, is
   the matter of a later section. Relies on >>safetensors, >>config and the stacks.
   ============================================================================================== */

/* A line of a vocabulary, which >>vocabulary reads. */
typedef struct tfm__spelling {
    const char *text;
    int32_t size, id;
} tfm__spelling;

typedef struct tfm__vocabulary {
    int64_t n_spellings;
    int32_t n;        /* tokens: ids below n */
    const char *text; /* the tensor's lines; NULL: the pieces of a SentencePiece model */
    /* while the file is checked: where each spelling begins in the text, sorted by its bytes, and
       the offset of each line [n] */
    void **sorted_lines;
    int64_t *line_offsets;
    /* after tfm__build_vocabulary, sorted and tokens in the memory of these two */
    tfm__spelling *spellings; /* sorted; SentencePiece's pieces in the order of their ids */
    void **sorted;            /* the spellings, by their bytes */
    int64_t *tokens;          /* [n]: the spelling of id i to write */
} tfm__vocabulary;

typedef struct tfm__tokenizer tfm__tokenizer;
typedef struct tfm__sentencepiece tfm__sentencepiece;
typedef struct tfm__byte_bpe tfm__byte_bpe;
typedef struct tfm__added_tokens tfm__added_tokens;

/* What source and target have of their own. */
typedef struct tfm__side {
    const char *name; /* "src", "tgt" */
    int32_t pad;      /* the config's id, -1: none */
    const tfm__matrix *embedding;
    tfm_tensor positions;            /* learned ones */
    tfm_norm_weights norm;           /* after the embedding; without data: none */
    int zero_start;                  /* position 0 has no embedding */
    const tfm__tokenizer *tokenizer; /* of the side's kind of text */
    int has_bytes;                   /* 1: the tokens are the bytes of UTF-8 */
    int32_t first_byte;              /* has_bytes: the id of byte 0 */
    int clean_up;                    /* the target's text has no space before punctuation */
    int32_t unk, start, end;         /* the config's ids, -1: none */
    int32_t unk_piece; /* the id of an unknown piece that is no token's spelling; -1: unk */
    tfm__vocabulary vocabulary; /* the file's, or SentencePiece's pieces */
    tfm__sentencepiece *spm;    /* NULL: words, characters or pieces without it */
    tfm__added_tokens *added;   /* NULL: none are found in a text */
    int32_t prefix_space;       /* the config's */
    int keep_trailing;          /* the config's trailing_space, of spm */
    int32_t marks;      /* while a text is empty, a token loses so many U+2581 at its front */
    int marks_once;     /* 1: only the first token that has some loses them */
    int32_t *ids;       /* [pieces]: a piece's id, -1 none; NULL: each is its own */
    int32_t *pieces;    /* target: [V], the piece of an id, or TFM__ID_ */
    tfm__byte_bpe *bpe; /* NULL: another kind of text */
} tfm__side;

#ifndef TRANSFORMER_NO_TEXT
/* Returns whether the side's texts can be read and written. */
static int tfm__has_text(const tfm__side *side) {
    return side->has_bytes || side->vocabulary.n > 0;
}
#endif

/* The target tokens that a source token may become. Those of source token t are ids[offsets[t]] to
   ids[offsets[t + 1] - 1]. Both are bytes of the file: little-endian U32 at any address. */
typedef struct tfm__lexicon {
    const unsigned char *offsets, *ids; /* [V + 1] of the source's V; NULL: none */
} tfm__lexicon;

enum { TFM__LANGUAGE_UNSET = -2 }; /* the model needs tfm_languages_set, which was not called yet */

/* Returns element i of a U32 tensor of the file, which may have any address. */
static int64_t tfm__u32_at(const unsigned char *numbers, int64_t i) {
    return (int64_t)tfm__little_endian(numbers + 4 * i, 4);
}

/* Weights are views of the file's bytes or of copies in the pool. Tied tensors share their data. */
struct tfm_model {
    tfm__pool pool; /* first, for tfm__pool_make; has the file's bytes, if the model read them */
    void *mapping;  /* or where they are mapped; NULL: neither */
    size_t mapped;  /* bytes there */
    tfm_config config;
    tfm_decode_options decoding;
    const tfm__kernels *kernels; /* that its matrices are packed for */
    tfm__linear *linears;        /* all whose matrices are packed, a list */
    tfm__side source, target;
    tfm__stack encoder, decoder;
    tfm__matrix embeddings[2]; /* of source and target, those that are not the generator's */
    tfm__linear projection;    /* of a source's embeddings; without rows: none */
    tfm__linear generator;
    tfm__lexicon lexicon;
    const tfm__rotary *rotaries; /* a list; NULL: no rotary positions */
    int64_t rotary_columns;      /* of all of them */
};

enum { TFM__PACKED_LAYOUT = 2 }; /* of the packed files that tools/quantize writes */
enum { TFM__NAME = 128 };        /* bytes for the longest name for which the loader asks */

/* Reports what is wrong with the tensors. */
#define TFM__FAIL_TENSOR(l, ...) tfm__fail((l)->err, TFM_E_TENSOR, __VA_ARGS__)

/* The state of loading a model. */
typedef struct tfm__loader {
    tfm_safetensors *file;
    tfm_model *model;
    tfm_model_options options;
    int packed;           /* 1: matrices may be panels, and the config states the sizes */
    int owns_bytes;       /* panels may overwrite rows of the file's bytes */
    char name[TFM__NAME]; /* of the tensor that was claimed last */
    tfm_error *err;
} tfm__loader;

/* Returns the entry that is named prefix and suffix, and marks it as used; NULL if there is none.
   The name stays in l->name for messages. */
static const tfm__file_entry *tfm__load_claim(tfm__loader *l, const char *prefix,
                                              const char *suffix) {
    tfm__file_entry *e;
    int64_t i;
    tfm__format(l->name, sizeof l->name, "%s%s", prefix, suffix);
    i = tfm_safetensors_find(l->file, l->name);
    if (i < 0) return NULL;
    e = (tfm__file_entry *)l->file->by_offset[i];
    e->is_used = 1;
    return e;
}

static tfm_status tfm__load_missing(const tfm__loader *l) {
    return TFM__FAIL_TENSOR(l, "tensor '%s' is missing", l->name);
}

/* Checks type and shape of the tensor that was claimed last. dims NULL and -1 take any size. */
static tfm_status tfm__load_check(const tfm__loader *l, const tfm_tensor *t, tfm_dtype dtype,
                                  int rank, const int64_t *dims) {
    tfm_tensor expected = *t;
    int r;
    if (t->dtype != dtype)
        return TFM__FAIL_TENSOR(l, "tensor '%s' is %s %t, expected %s of rank %d", l->name,
                                tfm_dtype_name(t->dtype), t, tfm_dtype_name(dtype), rank);
    if (t->rank != rank)
        return TFM__FAIL_TENSOR(l, "tensor '%s' is %t, expected rank %d", l->name, t, rank);
    for (r = 0; dims && r < rank; r++)
        if (dims[r] >= 0) expected.dims[r] = dims[r];
    if (memcmp(t->dims, expected.dims, sizeof t->dims) != 0)
        return TFM__FAIL_TENSOR(l, "tensor '%s' is %t, expected %t", l->name, t, &expected);
    return TFM_OK;
}

/* Sets *t to the array of integers that is named prefix and suffix, and checks its type and shape.
   dims NULL takes any sizes. If the file has no such tensor, t->data is NULL and t->rank 0. */
static tfm_status tfm__load_array(tfm__loader *l, const char *prefix, const char *suffix,
                                  tfm_dtype dtype, int rank, const int64_t *dims, tfm_tensor *t) {
    const tfm__file_entry *e = tfm__load_claim(l, prefix, suffix);
    memset(t, 0, sizeof *t);
    if (!e) return TFM_OK;
    *t = tfm__file_tensor(l->file, e);
    return tfm__load_check(l, t, dtype, rank, dims);
}

#ifndef TRANSFORMER_NO_TEXT

/* >>tokenizers ====================================================================================
   25. TOKENIZERS
   The interface that each kind of text implements in a section of its own (>>tokens has the table
   of all kinds), and what several kinds use.
   ============================================================================================== */

typedef struct tfm__token_cursor tfm__token_cursor;
typedef struct tfm__token tfm__token;
typedef struct tfm__normal tfm__normal;
typedef struct tfm__lattice tfm__lattice;
typedef struct tfm__joined tfm__joined;

/* What a kind of text (tfm_text_kind) does. */
struct tfm__tokenizer {
    /* Reads and checks a side's tensors. shared: the source, whose tensors a target may share. */
    tfm_status (*load)(tfm__loader *l, tfm__side *side, const tfm__side *shared);
    /* Builds the tables that are not shared, after the whole file is checked. May be NULL. */
    tfm_status (*build)(tfm__loader *l, tfm__side *side, const tfm__side *shared);
    /* Prepares a text; next uses what this takes from scratch. May be NULL. */
    tfm_status (*begin)(tfm__token_cursor *c, tfm_arena *scratch, tfm_error *err);
    /* Sets the next token and returns 1, at the end 0. */
    int (*next)(tfm__token_cursor *c, tfm__token *token);
    /* tfm__lattice_begin calls these two. normalize appends bytes at to end - 1 of a text to o in
       normalized form; encode cuts bytes from to to - 1 of the normalized text into pieces. */
    void (*normalize)(const tfm__side *side, const char *text, int64_t at, int64_t end,
                      tfm__normal *o);
    void (*encode)(tfm__lattice *b, int32_t from, int32_t to);
    /* Writes a token. */
    void (*join)(tfm__joined *j, int32_t id);
    int32_t marks; /* join drops so many U+2581 at the beginning of a text, at most */
    int broken;    /* bytes that are in no character: 1: each becomes U+FFFD; 0: a run that could
                      begin a character becomes one, as Unicode advises; -1: they are left out */
};

/* ---- steps along a text ---- */

/* Returns the bytes of the character whose first byte is c, in valid UTF-8. */
static int32_t tfm__utf8_size(unsigned char c) {
    return c < 0x80 ? 1 : c < 0xE0 ? 2 : c < 0xF0 ? 3 : 4;
}

/* Returns whether a byte of valid UTF-8 continues a character. */
static int tfm__is_inside(const char *text, size_t size, size_t at) {
    return at < size && ((unsigned char)text[at] & 0xC0) == 0x80;
}

/* Returns whether c has Unicode's property White_Space. */
static int tfm__is_space(uint32_t c) {
    return (c >= 9 && c <= 13) || c == ' ' || c == 0x85 || c == 0xA0 || c == 0x1680 ||
           (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 || c == 0x202F ||
           c == 0x205F || c == 0x3000;
}

/* Returns how many bytes from byte at on are whitespace (space 1) or are not (space 0). */
static size_t tfm__run(const tfm_text *text, size_t at, int space) {
    uint32_t c = 0;
    size_t i = at;
    int n;
    for (; i < text->size; i += (size_t)n) {
        n = tfm__utf8_next(text->data + i, text->size - i, &c);
        if (tfm__is_space(c) != space) break;
    }
    TFM__COUNT_TEXT(i - at + 1);
    return i - at;
}

TFM_DEF tfm_text tfm_text_make(const char *data, size_t size) {
    tfm_text text = {data, size};
    return text;
}

static const char tfm__space_piece[] = "\xE2\x96\x81"; /* U+2581, which stands for a space */
static const char tfm__replacement[] = "\xEF\xBF\xBD"; /* U+FFFD */
enum { TFM__SPACE_PIECE = 3, TFM__REPLACEMENT = 3 };   /* their bytes */

static int tfm__begins_with_mark(const char *text, int64_t size) {
    return size >= TFM__SPACE_PIECE && memcmp(text, tfm__space_piece, TFM__SPACE_PIECE) == 0;
}

/* ---- rules that replace bytes ---- */

/* Each side of a rule has at most this many bytes; those of the package have up to 33. Without a
   limit, a cyclic trie or a long string would make normalization unbounded. */
enum { TFM__LONGEST_RULE = 1024, TFM__MOST_RULES = 32 }; /* of one place, rules that count */

/* Rules that replace bytes: the file's double array (Darts), and replacements that end with NUL. */
typedef struct tfm__charsmap {
    const unsigned char *units; /* of 4 bytes, at any address; NULL: no rules */
    const char *strings;
} tfm__charsmap;

static uint32_t tfm__charsmap_unit(const tfm__charsmap *m, uint32_t i) {
    const unsigned char *p = m->units + 4 * (size_t)i; /* compilers make one load of it */
    return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}
/* Returns the offset of a node: the node's number XOR the offset is the base of its children. */
static uint32_t tfm__charsmap_offset(uint32_t unit) { return (unit >> 10) << ((unit & 512) >> 6); }

static int tfm__charsmap_step(const tfm__charsmap *m, uint32_t *node, char c) {
    uint32_t child = *node ^ tfm__charsmap_offset(tfm__charsmap_unit(m, *node)) ^ (unsigned char)c;
    if ((tfm__charsmap_unit(m, child) & 0x800000FF) != (unsigned char)c) return 0;
    *node = child;
    return 1;
}

/* Finds the longest rule that text begins with. Returns how many bytes it replaces, 0: none. */
static int64_t tfm__charsmap_match(const tfm__charsmap *m, const char *text, int64_t size,
                                   const char **becomes) {
    uint32_t node = 0, unit, leaf;
    int64_t i, length = 0;
    int found = 0;
    if (!m->units) return 0;
    for (i = 0; i < size && i < TFM__LONGEST_RULE && found < TFM__MOST_RULES; i++) {
        if (!tfm__charsmap_step(m, &node, text[i])) break;
        unit = tfm__charsmap_unit(m, node);
        if (!(unit >> 8 & 1)) continue;
        leaf = tfm__charsmap_unit(m, node ^ tfm__charsmap_offset(unit));
        *becomes = m->strings + (leaf & 0x7FFFFFFF);
        length = i + 1;
        found++;
    }
    TFM__COUNT_TEXT(i + 1);
    return length;
}

/* Applies rules where a text begins: sets *out [*n], and returns how many bytes it replaces. */
static int64_t tfm__mapped_prefix(const tfm__charsmap *m, const char *text, int64_t size,
                                  const char **out, int64_t *n) {
    uint32_t character;
    int64_t taken = tfm__charsmap_match(m, text, size, out);
    if (taken) {
        *n = (int64_t)strlen(*out);
        return taken;
    }
    *out = text;
    *n = taken = tfm__utf8_next(text, (size_t)size, &character);
    if (taken) return taken;
    *out = tfm__replacement; /* only after a rule that takes half a character */
    *n = TFM__REPLACEMENT;
    return 1;
}

/* ---- normalized text and its cells ---- */

/* There is one cell for each byte of the normalized text, and one for its end. Cutting goes from
   the first state of a cell to the last:
     the text is cut   unigram: the best way to end at each byte    score, from.piece, id
                       BPE: a list of symbols, which are merged     from.symbol, to.size, id
     it was cut        a list of pieces, from cell 0 to the end     to.next, id
     spans are wanted  the same, and where bytes come from          from.origin, to.next, id */
typedef struct tfm__cell {
    float score; /* of the best pieces for the bytes before this one */
    union {
        int32_t piece;  /* where the last of these pieces begins; -1: no piece ends here */
        int32_t symbol; /* where the symbol before this one begins; -1: it is the first */
        int32_t origin; /* the byte of the source that this byte was made from */
    } from;
    union {
        int32_t size; /* bytes of the symbol that begins here; 0: none does */
        int32_t next; /* where the piece after the one that begins here begins */
    } to;
    int32_t id; /* of the last of the best pieces; or the symbol (-1: none, -2 - id: of a piece that
                   is not merged); or of the piece that begins here */
} tfm__cell;

/* Normalized text under construction. If it does not fit, only n grows. */
struct tfm__normal {
    char *text;
    int64_t n, capacity;
    tfm__cell *cells; /* [n_cells]: from.origin is set; NULL: not wanted */
    int64_t n_cells;
    int before_added; /* an added token follows what is normalized now */
};

/* Appends n bytes that were made from the text at byte origin. */
static void tfm__normal_put(tfm__normal *o, const char *text, int64_t n, int64_t origin) {
    int64_t k;
    if (n <= o->capacity - o->n) memcpy(o->text + o->n, text, (size_t)n);
    else o->capacity = 0; /* so that later bytes do not follow a gap */
    for (k = o->n; k < o->n + n && k < o->n_cells; k++) o->cells[k].from.origin = (int32_t)origin;
    o->n += n;
    TFM__COUNT_TEXT(n);
}

/* Two neighbours that would make one symbol. */
typedef struct tfm__pair {
    int32_t rank;       /* the pair with the highest rank is merged first */
    int32_t left, size; /* the byte at which the pair begins, and its bytes */
    int32_t symbol;     /* the symbol that replaces both */
} tfm__pair;

/* Scratch to cut a text, whose normalized form has n bytes. */
struct tfm__lattice {
    const tfm__side *side;
    char *text;
    tfm__cell *cells; /* [n + 1] */
    tfm__pair *heap;  /* BPE: [2 n], because a merge removes one pair and adds at most two */
    int32_t *splits;  /* BPE: [pieces], the bytes of the left half of an unused piece seen last */
    int32_t n, n_heap, n_splits;
    int32_t end; /* BPE: the end of the symbols that were appended so far */
    int has_ids; /* BPE: symbols are ids, so two pairs with the same bytes may differ */
    /* BPE: sets rank and symbol of the pair at left; returns 0 if the two make no symbol */
    int (*find_pair)(tfm__lattice *b, int32_t left, tfm__pair *pair);
};

/* Where a text has been cut into tokens up to now, one token after the other. */
struct tfm__token_cursor {
    const tfm__side *side;
    const tfm__tokenizer *kind;
    tfm_text_form form;
    tfm_text source; /* the text, without a language's label of offset bytes before it */
    size_t offset;
    tfm_text text;      /* what is cut: the source, with marks (pieces), or normalized */
    size_t at;          /* where the next token begins */
    size_t first, last; /* the character whose bytes are the next tokens; bytes has them */
    char bytes[4];
    tfm__cell *cells; /* NULL: the kind does not normalize */
};

struct tfm__token {
    size_t begin, end; /* in what is cut */
    tfm_text text;     /* the whole characters of which it has bytes; not set for added tokens */
    int32_t id;        /* -1: not in the vocabulary */
};

/* Sets *token, except its id, to bytes begin to end - 1, and goes on behind them. */
static void tfm__cursor_take(tfm__token_cursor *c, tfm__token *token, size_t begin, size_t end) {
    token->begin = begin;
    token->end = c->at = end;
    while (tfm__is_inside(c->text.data, c->text.size, begin)) begin--;
    while (tfm__is_inside(c->text.data, c->text.size, end)) end++;
    token->text = tfm_text_make(c->text.data + begin, end - begin);
}

/* ---- byte-pair encoding ---- */

static int tfm__pair_first(const tfm__pair *a, const tfm__pair *b) {
    return a->rank != b->rank ? a->rank > b->rank : a->left < b->left;
}

/* Puts the symbol at left and its right neighbour into the heap if they make a symbol. */
static void tfm__bpe_push(tfm__lattice *b, int32_t left) {
    const tfm__cell *l = &b->cells[left], *r = l + l->to.size;
    tfm__pair pair;
    int32_t i;
    if (left + l->to.size == b->end || l->id < 0 || r->id < -1 || !b->find_pair(b, left, &pair))
        return;
    pair.left = left;
    pair.size = l->to.size + r->to.size;
    for (i = b->n_heap++; i && tfm__pair_first(&pair, &b->heap[(i - 1) / 2]); i = (i - 1) / 2) {
        b->heap[i] = b->heap[(i - 1) / 2];
        TFM__COUNT_TEXT(1);
    }
    b->heap[i] = pair;
}

/* Appends a symbol of size bytes in cell at. last is the symbol before it, or -1. */
static void tfm__bpe_append(tfm__lattice *b, int32_t at, int32_t size, int32_t last) {
    b->cells[at].to.size = size;
    b->cells[at].from.symbol = last;
    b->end = at + size;
    if (last >= 0) tfm__bpe_push(b, last);
}

static tfm__pair tfm__bpe_pop(tfm__lattice *b) {
    tfm__pair top = b->heap[0], last = b->heap[--b->n_heap];
    int32_t i = 0, child;
    for (; (child = 2 * i + 1) < b->n_heap; i = child) {
        if (child + 1 < b->n_heap && tfm__pair_first(&b->heap[child + 1], &b->heap[child])) child++;
        if (!tfm__pair_first(&b->heap[child], &last)) break;
        b->heap[i] = b->heap[child];
        TFM__COUNT_TEXT(1);
    }
    b->heap[i] = last;
    return top;
}

/* Merges pairs until none is left. */
static void tfm__bpe_merge(tfm__lattice *b) {
    while (b->n_heap) {
        tfm__pair top = tfm__bpe_pop(b), now;
        tfm__cell *l = &b->cells[top.left], *r;
        int32_t right = top.left + l->to.size;
        /* skipped: since the pair was pushed, one of the two was merged with another symbol */
        if (l->to.size == 0 || right >= b->end) continue;
        r = &b->cells[right];
        if (l->to.size + r->to.size != top.size) continue;
        if (b->has_ids && !b->find_pair(b, top.left, &now))
            continue; /* same bytes, other symbols */
        l->to.size = top.size;
        l->id = top.symbol;
        r->to.size = 0;
        if (top.left + top.size < b->end) b->cells[top.left + top.size].from.symbol = top.left;
        if (l->from.symbol >= 0) tfm__bpe_push(b, l->from.symbol);
        tfm__bpe_push(b, top.left);
    }
}

/* ---- tokens to text ---- */

/* Of an id of the target: it is not a piece; it has no text. */
enum { TFM__ID_PLAIN = -1, TFM__ID_DROPPED = -2 };

/* In TFM_TEXT_FORM_ESCAPED a backslash and letter i stand for character i. */
static const char tfm__escape_letters[] = "stnvfr\\", tfm__escaped[] = " \t\n\v\f\r\\";

/* Returns size + n, or SIZE_MAX if the sum does not fit: with tokens of a megabyte, 32 bits are
   soon full. No buffer has room for SIZE_MAX bytes and the end. */
static size_t tfm__more(size_t size, size_t n) { return n > SIZE_MAX - size ? SIZE_MAX : size + n; }

/* A text under construction; if out is NULL, only its size is counted. */
struct tfm__joined {
    const tfm__side *side;
    tfm_text_form form;
    char *out;
    size_t size;
    int started;                /* something was written */
    const tfm__charsmap *rules; /* of denormalization; NULL: none */
    int64_t n_held;             /* bytes in held, to which the rules are not applied yet */
    char held[2 * TFM__LONGEST_RULE];
    char bytes[4]; /* bytes that may begin a character, not written yet */
    int n_bytes;
    int clean_up;     /* spaces before punctuation are dropped */
    char clean[3][4]; /* bytes that each pass holds because a rule may begin with them */
    int n_clean[3];
};

/* Drops spaces as transformers' clean-up does, which makes its replacements in three passes over
   the text. Here each pass takes one byte after the other. It holds bytes that a rule may begin
   with, drops the spaces of a rule that is complete, and passes all other bytes on; pass 3 writes
   them. */
static void tfm__join_clean(tfm__joined *j, int pass, char byte) {
    static const char *const rules[3][6] = {
        {" .", " ?", " !", " ,"}, {" ' "}, {" n't", " 'm", " 's", " 've", " 're"}};
    char *held = j->clean[pass % 3];
    int i, k, n;
    if (pass == 3) {
        if (j->out) j->out[j->size] = byte;
        j->size = tfm__more(j->size, 1);
        return;
    }
    held[j->n_clean[pass]++] = byte;
    while ((n = j->n_clean[pass]) > 0) {
        for (i = 0; rules[pass][i] && strncmp(rules[pass][i], held, (size_t)n) != 0;) i++;
        if (rules[pass][i] && rules[pass][i][n]) return;
        if (!rules[pass][i]) n = 1;
        for (k = 0; k < n; k++)
            if (n == 1 || held[k] != ' ') tfm__join_clean(j, pass + 1, held[k]);
        j->n_clean[pass] -= n;
        memmove(held, held + n, (size_t)j->n_clean[pass]);
    }
}

static void tfm__join_result(tfm__joined *j, const char *bytes, int64_t n) {
    int64_t k;
    TFM__COUNT_TEXT(n);
    for (k = 0; k < n && j->clean_up; k++) tfm__join_clean(j, 0, bytes[k]);
    if (j->clean_up) return;
    if (j->out) memcpy(j->out + j->size, bytes, (size_t)n);
    j->size = tfm__more(j->size, (size_t)n);
}

/* Applies the rules to the held bytes but the last, which a rule may need with later bytes. */
static void tfm__join_held(tfm__joined *j, int64_t last) {
    const char *result;
    int64_t at = 0, n;
    while (j->n_held - at > last) {
        at += tfm__mapped_prefix(j->rules, j->held + at, j->n_held - at, &result, &n);
        tfm__join_result(j, result, n);
    }
    j->n_held -= at;
    memmove(j->held, j->held + at, (size_t)j->n_held);
}

static void tfm__join_bytes(tfm__joined *j, const char *bytes, int64_t n) {
    if (n) j->started = 1;
    if (!j->rules) tfm__join_result(j, bytes, n);
    for (; j->rules && n; n--) {
        j->held[j->n_held++] = *bytes++;
        if (j->n_held == (int64_t)sizeof j->held) tfm__join_held(j, TFM__LONGEST_RULE);
    }
}

/* Appends a token, escaped if the form is. */
static void tfm__join_text(tfm__joined *j, const char *token, int64_t size) {
    char escape[6] = "\\u";
    int64_t k;
    int n, i;
    if (j->form != TFM_TEXT_FORM_ESCAPED) {
        tfm__join_bytes(j, token, size);
        return;
    }
    for (k = 0; k < size; k += n) {
        uint32_t c = 0;
        const char *plain;
        n = tfm__utf8_next(token + k, (size_t)(size - k), &c);
        plain = c < 0x80 ? (const char *)memchr(tfm__escaped, (int)c, sizeof tfm__escaped) : NULL;
        if (!c || (!plain && (c < 0x20 || (c - 0x7F) < 0x21 || tfm__is_space(c)))) {
            escape[1] = 'u';
            for (i = 0; i < 4; i++) escape[2 + i] = "0123456789ABCDEF"[c >> (12 - 4 * i) & 15];
            tfm__join_bytes(j, escape, 6);
        } else if (plain) {
            escape[1] = tfm__escape_letters[plain - tfm__escaped];
            tfm__join_bytes(j, escape, 2);
        } else {
            tfm__join_bytes(j, token + k, n);
        }
    }
}

/* Appends a token in which U+2581 stands for a space. */
static void tfm__join_token(tfm__joined *j, const char *token, int64_t size) {
    int32_t drop = j->started ? 0 : j->side->marks;
    int64_t k, n;
    for (k = 0; drop && tfm__begins_with_mark(token + k, size - k); drop--) {
        k += TFM__SPACE_PIECE;
        if (j->side->marks_once) j->started = 1;
    }
    for (; k < size; k += n) {
        for (n = 0; k + n < size && !tfm__begins_with_mark(token + k + n, size - k - n);) n++;
        tfm__join_bytes(j, n ? token + k : " ", n ? n : 1);
        if (!n) n = TFM__SPACE_PIECE;
    }
}

/* Returns whether n <= 4 bytes begin a character, which the least or greatest others complete. */
static int tfm__utf8_begins(const char *bytes, int n) {
    char least[] = "\x80\x80\x80\x80", greatest[] = "\xBF\xBF\xBF\xBF";
    uint32_t c;
    memcpy(least, bytes, (size_t)n);
    memcpy(greatest, bytes, (size_t)n);
    return tfm__utf8_next(least, 4, &c) >= n || tfm__utf8_next(greatest, 4, &c) >= n;
}

/* Writes U+FFFD for the held bytes, which are in no character, or drops them (see broken). */
static void tfm__join_broken(tfm__joined *j) {
    int broken = j->side->tokenizer->broken, n = broken > 0 ? j->n_bytes : !broken && j->n_bytes;
    j->n_bytes = 0;
    while (n--) tfm__join_bytes(j, tfm__replacement, TFM__REPLACEMENT);
}

/* Appends a byte of a character; its other bytes may be in other tokens. */
static void tfm__join_byte(tfm__joined *j, int byte) {
    uint32_t character;
    int n;
    for (;;) {
        j->bytes[j->n_bytes] = (char)byte;
        n = j->n_bytes + 1;
        if (tfm__utf8_begins(j->bytes, n)) break;
        if (!j->n_bytes) j->n_bytes = 1, n = 0;
        tfm__join_broken(j);
        if (!n) return; /* no character begins with this byte */
    }
    j->n_bytes = n;
    if (tfm__utf8_next(j->bytes, (size_t)n, &character) != n) return;
    j->n_bytes = 0;
    tfm__join_text(j, j->bytes, n);
}

/* Returns the spelling of a token, or NULL if it has no text, as rows beyond the vocabulary. */
static const tfm__spelling *tfm__join_spelling(const tfm__joined *j, int32_t id) {
    const tfm__vocabulary *v = &j->side->vocabulary;
    if (j->form == TFM_TEXT_FORM_TEXT ? j->side->pieces[id] == TFM__ID_DROPPED : id >= v->n)
        return NULL;
    return &v->spellings[v->tokens[id]];
}

/* >>vocabulary ====================================================================================
   26. VOCABULARIES
   A vocabulary is the lines of a U8 tensor. The first spelling of a line is the token. The others
   read as the same id: the traditional form of a character, its full-width form. A look-up bisects
   the sorted spellings. A hash table would be slow if a hostile file had many spellings with one
   hash.
   ============================================================================================== */

/* Compares by bytes, then by length: the order of the sorted spellings. */
static int tfm__compare_spellings(const void *a, const void *b) {
    const tfm__spelling *x = (const tfm__spelling *)a, *y = (const tfm__spelling *)b;
    int order = memcmp(x->text, y->text, (size_t)tfm__min(x->size, y->size));
    TFM__COUNT_TEXT(1 + tfm__min(x->size, y->size));
    return order ? order : x->size < y->size ? -1 : x->size > y->size;
}

static const tfm__spelling *tfm__sorted(const tfm__vocabulary *v, int64_t i) {
    return (const tfm__spelling *)v->sorted[i];
}

/* Returns the id of the spelling that compares equal to key, or -1. */
static int32_t tfm__find_like(const tfm__vocabulary *v, const void *key, tfm__compare compare) {
    int64_t i = tfm__lower_bound(v->sorted, v->n_spellings, key, compare);
    return i < v->n_spellings && compare(v->sorted[i], key) == 0 ? tfm__sorted(v, i)->id : -1;
}
static int32_t tfm__find_token(const tfm__vocabulary *v, const char *text, int64_t size) {
    tfm__spelling wanted = {text, (int32_t)size, 0};
    return tfm__find_like(v, &wanted, tfm__compare_spellings);
}

static int tfm__is_line_end(int c) { return c == '\n' || c == '\t'; }

/* Compares two spellings in the tensor's text, each up to its TAB or newline, in the same order. */
static int tfm__compare_lines(const void *a, const void *b) {
    const unsigned char *x = (const unsigned char *)a, *y = (const unsigned char *)b;
    for (; *x == *y && !tfm__is_line_end(*x); x++) y++;
    TFM__COUNT_TEXT(1 + (x - (const unsigned char *)a));
    if (tfm__is_line_end(*x)) return tfm__is_line_end(*y) - 1;
    return tfm__is_line_end(*y) || *x > *y ? 1 : -1;
}

/* Returns the first 8 bytes of a line or spelling, zeros after it, as a number in their order. */
static uint64_t tfm__sort_key(const void *item, int is_line) {
    const tfm__spelling *s = is_line ? NULL : (const tfm__spelling *)item;
    const char *text = s ? s->text : (const char *)item;
    uint64_t key = 0;
    int i;
    for (i = 0; i < 8 && (s ? i < s->size : !tfm__is_line_end(text[i])); i++)
        key |= (uint64_t)(unsigned char)text[i] << (56 - 8 * i);
    return key;
}

/* Returns the line, from 0, of a byte of the text. */
static int64_t tfm__line_of(const tfm__vocabulary *v, const void *at) {
    int64_t line = 0;
    TFM__BISECT(line, v->n, middle, v->text + v->line_offsets[middle] <= (const char *)at)
    return line - 1;
}

/* Where the reader of a text's tensor is, for messages, and where it takes memory. */
typedef struct tfm__text_reader {
    const char *name;            /* of the tensor */
    const unsigned char *begin;  /* SentencePiece: of its bytes */
    tfm__pool *pool, *temporary; /* the model's; one that goes when loading is done */
    tfm_tensor order;            /* of a packed file; without data: to be made */
    int part;                    /* SentencePiece: TFM__SPM_ ..., 0: the pieces together */
    int64_t piece;               /* that is being read */
    char own_name[TFM__NAME];
    tfm_error *err;
} tfm__text_reader;

/* Sorts n items by their first 8 bytes, the last byte first, and then equal ones by comparison. */
static tfm_status tfm__sort_keyed(const tfm__text_reader *r, void **items, int64_t n,
                                  tfm__compare compare, int are_lines) {
    uint64_t *keys, *keys_to, *keys_swap;
    void **from = items, **to, **swap;
    int64_t counts[8][256], i, end;
    int byte, k;
    if (n < 2) return TFM_OK;
    TFM__TRY(TFM__NEW(r->temporary, n, &keys, r->err));
    TFM__TRY(TFM__NEW(r->temporary, n, &keys_to, r->err));
    TFM__TRY(TFM__NEW(r->temporary, n, &to, r->err));
    memset(counts, 0, sizeof counts);
    for (i = 0; i < n; i++) {
        keys[i] = tfm__sort_key(items[i], are_lines);
        for (byte = 0; byte < 8; byte++) counts[byte][keys[i] >> 8 * byte & 255]++;
    }
    for (byte = 0; byte < 8; byte++) {
        int64_t *place = counts[byte], sum = 0, count;
        if (place[keys[0] >> 8 * byte & 255] == n) continue; /* all have the same */
        for (k = 0; k < 256; k++) count = place[k], place[k] = sum, sum += count;
        for (i = 0; i < n; i++) {
            int64_t at = place[keys[i] >> 8 * byte & 255]++;
            keys_to[at] = keys[i], to[at] = from[i];
        }
        keys_swap = keys, keys = keys_to, keys_to = keys_swap;
        swap = from, from = to, to = swap;
    }
    if (from != items) memcpy(items, from, (size_t)n * sizeof *items);
    TFM__COUNT_TEXT(16 * n);
    for (i = 0; i < n; i = end) {
        for (end = i + 1; end < n && keys[end] == keys[i];) end++;
        if (end > i + 1) tfm__sort(items + i, end - i, compare);
    }
    return TFM_OK;
}

/* Returns how many bytes two spellings share at the front, or -1 if b does not come after a. */
static int16_t tfm__shared_bytes(const tfm__spelling *a, const tfm__spelling *b) {
    int32_t n = 0;
    while (n < a->size && n < b->size && a->text[n] == b->text[n]) n++;
    TFM__COUNT_TEXT(1 + n);
    if (n == b->size) return -1;
    if (n < a->size && (unsigned char)a->text[n] > (unsigned char)b->text[n]) return -1;
    return (int16_t)n; /* a piece has at most 7999 bytes */
}

/* Sorts n lines, or with shared an array of n spellings, and sets shared to the bytes that each one
   shares with the one before. The order of a packed file, NAME_sorted, has their places, and is
   checked. *same is the place of the first item that is equal to the one before, or 0. */
static tfm_status tfm__sort_text(const tfm__text_reader *r, void **items, int64_t n,
                                 int16_t *shared, int64_t *same) {
    const tfm__compare compare = shared ? tfm__compare_spellings : tfm__compare_lines;
    const unsigned char *at = (const unsigned char *)r->order.data;
    tfm__spelling *first = shared ? (tfm__spelling *)items[0] : NULL;
    void **unsorted = NULL;
    int64_t i;
    if (shared) shared[0] = 0;
    if (!at) {
        TFM__TRY(tfm__sort_keyed(r, items, n, compare, !shared));
    } else if (r->order.dims[0] != n) {
        return TFM__FAIL_TENSOR(r, "tensor '%s_sorted' is %t, expected [%i]", r->name, &r->order,
                                n);
    } else {
        if (!shared) {
            TFM__TRY(TFM__NEW(r->temporary, n, &unsorted, r->err));
            memcpy(unsorted, items, (size_t)n * sizeof *items);
        }
        for (i = 0; i < n; i++) {
            int64_t place = tfm__u32_at(at, i);
            if (place >= n)
                return TFM__FAIL_TENSOR(r, "tensor '%s_sorted': element %i is %i, of %i", r->name,
                                        i, place, n);
            items[i] = shared ? (void *)(first + place) : unsorted[place];
        }
    }
    for (i = 1; i < n; i++)
        if (!shared ? compare(items[i - 1], items[i]) >= 0
                    : (shared[i] = tfm__shared_bytes((tfm__spelling *)items[i - 1],
                                                     (tfm__spelling *)items[i])) < 0)
            break;
    *same = i < n ? i : 0;
    if (*same && at)
        return TFM__FAIL_TENSOR(r, "tensor '%s_sorted': element %i does not come next", r->name, i);
    return TFM_OK;
}

/* Checks lines and spellings, and sorts them for look-up. expected: rows of the embedding, which
   must be as many as lines. Until tfm__build_vocabulary a spelling is its address alone: for a file
   of single letters that takes at most four times its size. */
static tfm_status tfm__read_vocabulary(const tfm__text_reader *r, tfm__vocabulary *v,
                                       const char *text, int64_t size, int32_t expected) {
    int64_t lines = 0, spellings = 0, i, begin, fault, same = 0;
    const char *name = r->name;
    void **sorted;
    if (size > INT32_MAX)
        return TFM__FAIL_TENSOR(r, "%s has %i bytes, more than 2147483647", name, size);
    fault = tfm__utf8_fault(text, (size_t)size);
    if (fault >= 0) return tfm__fail(r->err, TFM_E_UTF8, "%s: byte %i is not UTF-8", name, fault);
    for (i = begin = 0; i < size; i++) {
        if (text[i] == 0) return TFM__FAIL_TENSOR(r, "%s: byte %i is NUL", name, i);
        if (!tfm__is_line_end(text[i])) continue;
        if (i == begin)
            return TFM__FAIL_TENSOR(r, "%s: line %i has an empty token", name, lines + 1);
        if (text[i] == '\n') lines++;
        spellings++;
        begin = i + 1;
    }
    if (size && text[size - 1] != '\n')
        return TFM__FAIL_TENSOR(r, "%s: the last line has no end", name);
    if (lines != expected)
        return TFM__FAIL_TENSOR(r, "%s has %i lines, its embedding %i rows", name, lines,
                                (int64_t)expected);
    TFM__TRY(TFM__NEW(r->pool, spellings, &v->sorted_lines, r->err));
    TFM__TRY(TFM__NEW(r->pool, lines, &v->line_offsets, r->err));
    sorted = v->sorted_lines;
    for (i = begin = lines = 0; i < size; i++) {
        if (!tfm__is_line_end(text[i])) continue;
        if (begin == 0 || text[begin - 1] == '\n') v->line_offsets[lines++] = begin;
        *sorted++ = (void *)(text + begin);
        begin = i + 1;
    }
    TFM__TRY(tfm__sort_text(r, v->sorted_lines, spellings, NULL, &same));
    v->text = text;
    v->n = (int32_t)lines;
    v->n_spellings = spellings;
    if (!same) return TFM_OK;
    i = tfm__line_of(v, v->sorted_lines[same - 1]);
    lines = tfm__line_of(v, v->sorted_lines[same]);
    return TFM__FAIL_TENSOR(r, "%s: lines %i and %i have the same token", name,
                            tfm__min(i, lines) + 1, tfm__max(i, lines) + 1);
}

/* Builds the sorted spellings of a checked text. */
static tfm_status tfm__build_vocabulary(tfm__vocabulary *v, tfm__pool *pool, tfm_error *err) {
    int64_t i;
    TFM__TRY(TFM__NEW(pool, v->n_spellings, &v->spellings, err));
    v->sorted = v->sorted_lines;
    for (i = 0; i < v->n_spellings; i++) {
        tfm__spelling *s = &v->spellings[i];
        s->text = (const char *)v->sorted_lines[i];
        s->size = 0;
        while (!tfm__is_line_end(s->text[s->size])) s->size++;
        s->id = (int32_t)tfm__line_of(v, s->text);
        v->sorted[i] = s;
    }
    v->tokens = v->line_offsets; /* which nothing needs any more */
    for (i = 0; i < v->n_spellings; i++) {
        const tfm__spelling *s = &v->spellings[i];
        if (s->text == v->text || s->text[-1] == '\n') v->tokens[s->id] = i;
    }
    return TFM_OK;
}

/* Returns the first of sorted spellings low to high - 1, alike before byte at, with c or more
   there. */
static int64_t tfm__first_spelling(const tfm__vocabulary *v, int64_t low, int64_t high, int32_t at,
                                   int c) {
    TFM__BISECT(low, high, middle,
                tfm__sorted(v, middle)->size <= at ||
                    (unsigned char)tfm__sorted(v, middle)->text[at] < c)
    return low;
}

/* Finds the longest spelling that text begins with after the rules. Returns its id, or -1, and sets
   *bytes to how many bytes of the text it takes. Spellings of the side's special tokens do not
   count. side and rules may be NULL. Each byte narrows the range of sorted spellings. */
static int32_t tfm__longest_token(const tfm__vocabulary *v, const tfm__side *side,
                                  const tfm__charsmap *rules, const char *text, size_t size,
                                  size_t *bytes) {
    int64_t low = 0, high = v->n_spellings, part = 1, k;
    int32_t id = -1, depth = 0;
    size_t n;
    for (n = 0; n < size; n += (size_t)part) {
        const tfm__spelling *first;
        const char *out = text + n;
        int64_t n_out = 1;
        if (rules) part = tfm__mapped_prefix(rules, text + n, (int64_t)(size - n), &out, &n_out);
        for (k = 0; k < n_out && low < high; k++, depth++) {
            int c = (unsigned char)out[k];
            low = tfm__first_spelling(v, low, high, depth, c);
            high = tfm__first_spelling(v, low, high, depth, c + 1);
        }
        if (low == high) break;
        first = tfm__sorted(v, low);
        if (first->size == depth &&
            !(side && (first->id == side->pad || first->id == side->unk ||
                       first->id == side->start || first->id == side->end))) {
            id = first->id;
            *bytes = n + (size_t)part;
        }
    }
    return id;
}

/* Reads one byte of an escaped token, or an escape, and writes the n bytes that it stands for. */
static int64_t tfm__unescape(const char *text, int64_t size, char *out, int *n) {
    const char *letter;
    uint32_t c;
    tfm__json j;
    *out = *text;
    *n = 1;
    if (size < 2 || *text != '\\') return 1;
    letter = (const char *)memchr(tfm__escape_letters, text[1], sizeof tfm__escape_letters - 1);
    if (letter) {
        *out = tfm__escaped[letter - tfm__escape_letters];
        return 2;
    }
    j.begin = j.at = text + 2;
    j.end = text + size;
    if (text[1] != 'u' || !tfm__json_hex4(&j, &c) || (c >= 0xD800 && c < 0xE000)) return 1;
    *n = (int)(tfm__utf8_put(out, c) - out);
    return 6;
}

/* Compares a spelling and an escaped token, a tfm_text, in the order of the sorted spellings. */
static int tfm__compare_escaped(const void *a, const void *b) {
    const tfm__spelling *s = (const tfm__spelling *)a;
    const tfm_text *token = (const tfm_text *)b;
    int64_t at = 0, i = 0, size = (int64_t)token->size;
    int order = 0, n;
    char bytes[4];
    for (; !order && at < size; i += n) {
        at += tfm__unescape(token->data + at, size - at, bytes, &n);
        order = memcmp(s->text + i, bytes, (size_t)tfm__min(s->size - i, n));
        if (!order && s->size - i < n) order = -1;
    }
    return order ? order : i < s->size;
}

/* Returns the id of a token as a text of that form writes it, or -1. */
static int32_t tfm__token_id(const tfm__vocabulary *v, tfm_text_form form, const tfm_text *token) {
    if (form == TFM_TEXT_FORM_ESCAPED && memchr(token->data, '\\', token->size))
        return tfm__find_like(v, token, tfm__compare_escaped);
    return tfm__find_token(v, token->data, (int64_t)token->size);
}

/* ---- words, characters, pieces, bytes ---- */

/* Begins to read tensor NAME_suffix of a side, t; without data: the file has none. */
static tfm_status tfm__text_open(tfm__loader *l, const tfm__side *side, const char *suffix,
                                 tfm__text_reader *r, tfm_tensor *t) {
    memset(r, 0, sizeof *r);
    r->name = r->own_name;
    r->err = l->err;
    r->pool = &l->model->pool;
    r->temporary = &l->file->pool;
    tfm__format(r->own_name, sizeof r->own_name, "%s_%s", side->name, suffix);
    TFM__TRY(tfm__load_array(l, r->name, "", TFM_DTYPE_U8, 1, NULL, t));
    if (!t->data || !l->packed) return TFM_OK;
    return tfm__load_array(l, r->name, "_sorted", TFM_DTYPE_I32, 1, NULL, &r->order);
}

static tfm_status tfm__text_missing(tfm__loader *l, const tfm__side *side, const char *suffix) {
    return TFM__FAIL_TENSOR(l, "tensor '%s_%s' is missing", side->name, suffix);
}

/* Loads a side's vocabulary. A target without one takes the source's, unless the target has a
   SentencePiece model and the source has none. */
static tfm_status tfm__vocabulary_load(tfm__loader *l, tfm__side *side, const tfm__side *shared) {
    int64_t rows = side->embedding->rows;
    tfm__text_reader r;
    tfm_tensor t;
    TFM__TRY(tfm__text_open(l, side, "vocabulary", &r, &t));
    if (t.data)
        return tfm__read_vocabulary(&r, &side->vocabulary, (const char *)t.data, t.dims[0],
                                    (int32_t)rows);
    if (!shared || !shared->vocabulary.text || (side->spm && !shared->spm)) return TFM_OK;
    if (shared->vocabulary.n != rows)
        return TFM__FAIL_TENSOR(
            l, "tensor 'tgt_vocabulary' is missing, and src_vocabulary has %d tokens, expected %i",
            shared->vocabulary.n, rows);
    side->vocabulary = shared->vocabulary;
    return TFM_OK;
}

/* Cuts a word, or a token in a form with tokens. */
static int tfm__words_next(tfm__token_cursor *c, tfm__token *token) {
    size_t begin = c->at + tfm__run(&c->text, c->at, 1);
    if (begin >= c->text.size) return 0;
    tfm__cursor_take(c, token, begin, begin + tfm__run(&c->text, begin, 0));
    token->id = tfm__token_id(&c->side->vocabulary, c->form, &token->text);
    return 1;
}

static void tfm__words_join(tfm__joined *j, int32_t id) {
    const tfm__spelling *s = tfm__join_spelling(j, id);
    if (s && j->started) tfm__join_bytes(j, " ", 1);
    if (s) tfm__join_text(j, s->text, s->size);
}

/* Cuts a character. Whitespace between characters is a token only if the vocabulary has it. */
static int tfm__characters_next(tfm__token_cursor *c, tfm__token *token) {
    const tfm__vocabulary *v = &c->side->vocabulary;
    size_t at = c->at, begin = at + tfm__run(&c->text, at, 1);
    if (begin >= c->text.size) return 0;
    if (begin > at && at > 0) {
        tfm__cursor_take(c, token, at, begin);
        token->id = tfm__find_token(v, tfm__space_piece, TFM__SPACE_PIECE);
        if (token->id >= 0) return 1;
    }
    tfm__cursor_take(c, token, begin,
                     begin + (size_t)tfm__utf8_size((unsigned char)c->text.data[begin]));
    token->id = tfm__find_token(v, token->text.data, (int64_t)token->text.size);
    return 1;
}

/* Writes a character or a piece. */
static void tfm__pieces_join(tfm__joined *j, int32_t id) {
    const tfm__spelling *s = tfm__join_spelling(j, id);
    if (s) tfm__join_token(j, s->text, s->size);
}

/* Writes a mark before each word, as pieces have it. */
static tfm_status tfm__pieces_begin(tfm__token_cursor *c, tfm_arena *scratch, tfm_error *err) {
    tfm_arena all = tfm__scratch_begin(scratch);
    size_t at = 0, word, n = 0;
    char *out = NULL;
    TFM__TRY(TFM__TAKE(&all, 4 * (int64_t)c->text.size + TFM__SPACE_PIECE, 1, &out, err));
    TFM__TRY(tfm__scratch_end(scratch, &all, err));
    if (scratch->measuring) return TFM_OK;
    for (;; at += word) {
        at += tfm__run(&c->text, at, 1);
        word = tfm__run(&c->text, at, 0);
        if (!word) break;
        memcpy(out + n, tfm__space_piece, TFM__SPACE_PIECE);
        memcpy(out + n + TFM__SPACE_PIECE, c->text.data + at, word);
        n += TFM__SPACE_PIECE + word;
    }
    c->text = tfm_text_make(out, n);
    return TFM_OK;
}

/* Cuts the longest piece. A run of unknown characters is one token. */
static int tfm__pieces_next(tfm__token_cursor *c, tfm__token *token) {
    const char *text = c->text.data;
    size_t begin = c->at, at = begin, n = 0;
    token->id = -1;
    while (at < c->text.size && token->id < 0) {
        int32_t id;
        n = (size_t)tfm__utf8_size((unsigned char)text[at]);
        id = tfm__longest_token(&c->side->vocabulary, c->side, NULL, text + at, c->text.size - at,
                                &n);
        if (id >= 0 && at > begin) break; /* behind unknown ones */
        at += n;
        token->id = id;
    }
    tfm__cursor_take(c, token, begin, at);
    return at > begin;
}

/* Loads a side whose tokens are the bytes of UTF-8. A vocabulary spells its added tokens alone. */
static tfm_status tfm__bytes_load(tfm__loader *l, tfm__side *side, const tfm__side *shared) {
    int32_t rows = (int32_t)side->embedding->rows;
    side->first_byte = l->model->config.byte_offset;
    side->has_bytes = 1;
    side->unk = -1;
    if (side->first_byte > (int64_t)rows - 256)
        return TFM__FAIL_CONFIG(l->err,
                                "'%s_text' is bytes from id %d on, the vocabulary has %d tokens",
                                side->name, side->first_byte, rows);
    return tfm__vocabulary_load(l, side, shared && shared->has_bytes ? shared : NULL);
}

/* Cuts a byte. An escape may stand for several bytes, which have its span together. */
static int tfm__bytes_next(tfm__token_cursor *c, tfm__token *token) {
    const char *at = c->text.data + c->at;
    int64_t taken = 0;
    int n = 1;
    if (c->first >= c->last) {
        if (c->at >= c->text.size) return 0;
        taken = 1;
        c->bytes[0] = *at;
        if (c->form == TFM_TEXT_FORM_ESCAPED)
            taken = tfm__unescape(at, (int64_t)(c->text.size - c->at), c->bytes, &n);
        c->first = 0;
        c->last = (size_t)n;
    }
    tfm__cursor_take(c, token, c->at, c->at + (size_t)taken);
    token->id = c->side->first_byte + (unsigned char)c->bytes[c->first++];
    TFM__COUNT_TEXT(1);
    return 1;
}

/* Writes a byte, or an added token that gives text. */
static void tfm__bytes_join(tfm__joined *j, int32_t id) {
    const tfm__side *side = j->side;
    int64_t byte = (int64_t)id - side->first_byte;
    if (byte >= 0 && byte < 256) {
        tfm__join_byte(j, (int)byte);
    } else if (side->pieces && side->pieces[id] != TFM__ID_DROPPED) {
        const tfm__spelling *s = tfm__join_spelling(j, id);
        tfm__join_broken(j);
        tfm__join_text(j, s->text, s->size);
    }
}

/* >>sentencepiece =================================================================================
   27. SENTENCEPIECE
   The tokenizer of most trained translators (Kudo and Richardson 2018, arXiv:1808.06226), read from
   its own model file, which is written as protocol buffers. It gives the same ids as the package
   sentencepiece 0.2.3, also where two ways to cut a text have the same score
   (tests/compare/compare_sentencepiece.py). The reader checks all that the other parts rely on.
   Legend: n bytes of normalized text; a piece's id is its position in the file.
   ============================================================================================== */

/* Types of pieces. A user-defined piece is neither normalized nor cut. */
enum { TFM__PIECE_NORMAL = 1, TFM__PIECE_UNKNOWN, TFM__PIECE_CONTROL };
enum { TFM__PIECE_USER = 4, TFM__PIECE_UNUSED, TFM__PIECE_BYTE };

/* All pieces, in breadth-first order, so that the children of a node are neighbours. */
typedef struct tfm__trie_node {
    int32_t children; /* the first one; they end where those of the next node begin */
    int32_t id;       /* the piece that ends here; -1 if there is none that a text can become */
} tfm__trie_node;

typedef struct tfm__trie {
    tfm__trie_node *nodes; /* [n_nodes + 1]: node 0 is the root; the last only ends the children */
    char *labels;          /* [n_nodes]: the byte that leads to a node from its parent */
    int64_t n_nodes;
    int32_t *levels, longest; /* [longest + 2]: nodes of each depth */
    int16_t *shared;   /* until it is built: how many bytes sorted pieces share with the last one */
    int32_t root[256]; /* the root's child by each byte, or -1: there are too many to search */
} tfm__trie;

struct tfm__sentencepiece {
    tfm__vocabulary vocabulary; /* the pieces by their spelling */
    unsigned char *types;       /* [pieces] */
    float *scores;              /* [pieces] */
    tfm__trie trie;             /* of all pieces */
    tfm__charsmap map, unmap;
    const char *unk_surface; /* what the unknown piece becomes in text */
    int64_t unk_surface_size;
    int bpe, byte_fallback, has_unused, has_users;
    int dummy_prefix, suffix, trim, escape; /* suffix: a space mark ends a word */
    int cuts[2]; /* BPE: [0] no piece crosses the end of a space mark, [1] none its beginning */
    int32_t unk, bytes[256];
    float unk_score;
    unsigned char plain[256]; /* 1: normalization keeps this byte, 2: it does if ASCII follows */
};

/* ---- protocol buffers: tag, value, tag, value ... ---- */

enum { TFM__WIRE_VARINT = 0, TFM__WIRE_8 = 1, TFM__WIRE_BYTES = 2, TFM__WIRE_4 = 5 };

typedef struct tfm__wire {
    const unsigned char *at, *end;
} tfm__wire;

typedef struct tfm__wire_field {
    uint64_t number;
    int type;
    uint64_t value; /* the value; of TFM__WIRE_BYTES, the number of bytes */
    const unsigned char *bytes;
} tfm__wire_field;

/* Reads seven bits per byte, the lowest first. Returns 0 if the input ends or at over 64 bits. */
static int tfm__wire_varint(tfm__wire *w, uint64_t *value) {
    int shift;
    *value = 0;
    for (shift = 0; w->at < w->end; shift += 7) { /* the tenth byte is the last */
        uint64_t byte = *w->at++;
        if (shift == 63 && byte > 1) return 0;
        *value |= (byte & 0x7F) << shift;
        if (byte < 0x80) return 1;
    }
    return 0;
}

/* Reads the next field. Returns 1, at the end 0, at a fault or a group -1. */
static int tfm__wire_next(tfm__wire *w, tfm__wire_field *f) {
    uint64_t tag, size;
    int fixed;
    if (w->at == w->end) return 0;
    if (*w->at < 0x80) tag = *w->at++; /* nearly always */
    else if (!tfm__wire_varint(w, &tag)) return -1;
    if (tag > UINT32_MAX || tag >> 3 == 0) return -1;
    f->number = tag >> 3;
    f->type = (int)(tag & 7);
    fixed = f->type == TFM__WIRE_8 ? 8 : f->type == TFM__WIRE_4 ? 4 : 0;
    if (!fixed && f->type != TFM__WIRE_VARINT && f->type != TFM__WIRE_BYTES) return -1;
    if (!fixed && w->at < w->end && *w->at < 0x80) f->value = *w->at++;
    else if (!fixed && !tfm__wire_varint(w, &f->value)) return -1;
    size = f->type == TFM__WIRE_BYTES ? f->value : (uint64_t)fixed;
    if (size > (uint64_t)(w->end - w->at)) return -1;
    f->bytes = w->at;
    if (fixed) f->value = tfm__little_endian(w->at, fixed);
    w->at += size;
    return 1;
}

/* Returns the message that a field of bytes holds. */
static tfm__wire tfm__wire_inside(const tfm__wire_field *f) {
    tfm__wire w = {f->bytes, f->bytes + f->value};
    return w;
}

/* ---- the model file ---- */

enum { TFM__SPM_PIECE = 1, TFM__SPM_TRAINER, TFM__SPM_NORMALIZER, TFM__SPM_DENORMALIZER = 5 };
static const char *const tfm__spm_parts[] = {"pieces",          "a piece", "trainer_spec",
                                             "normalizer_spec", NULL,      "denormalizer_spec"};

/* Fails with "src_sentencepiece, piece 17: what more". */
static tfm_status tfm__spm_fault(const tfm__text_reader *r, const char *what, const char *more) {
    if (r->part == TFM__SPM_PIECE)
        return TFM__FAIL_TENSOR(r, "%s, piece %i: %s%s", r->name, r->piece, what, more);
    return TFM__FAIL_TENSOR(r, "%s, %s: %s%s", r->name, tfm__spm_parts[r->part], what, more);
}

/* The fields that this library knows: part, type, number, value if the field is absent, and name.
   denormalizer_spec has those of normalizer_spec. */
#define TFM__SPM_TABLE(X)                                                                          \
    X(TEXT, PIECE, BYTES, 1, 0, "piece")                                                           \
    X(SCORE, PIECE, 4, 2, 0, "score")                                                              \
    X(TYPE, PIECE, VARINT, 3, TFM__PIECE_NORMAL, "type")                                           \
    X(MODEL_TYPE, TRAINER, VARINT, 3, 1, "model_type")                                             \
    X(SUFFIX, TRAINER, VARINT, 24, 0, "treat_whitespace_as_suffix")                                \
    X(BYTES, TRAINER, VARINT, 35, 0, "byte_fallback")                                              \
    X(UNK_SURFACE, TRAINER, BYTES, 44, 0, "unk_surface")                                           \
    X(CHARSMAP, NORMALIZER, BYTES, 2, 0, "precompiled_charsmap")                                   \
    X(DUMMY_PREFIX, NORMALIZER, VARINT, 3, 1, "add_dummy_prefix")                                  \
    X(TRIM, NORMALIZER, VARINT, 4, 1, "remove_extra_whitespaces")                                  \
    X(ESCAPE, NORMALIZER, VARINT, 5, 1, "escape_whitespaces")
#define TFM__SPM_ID(id, part, type, number, absent, name) TFM__SPM_##id,
#define TFM__SPM_ROW(id, part, type, number, absent, name) {TFM__WIRE_##type, number, absent, name},
enum { TFM__SPM_TABLE(TFM__SPM_ID) TFM__SPM_FIELDS };
static const struct {
    int type;
    uint64_t number, absent;
    const char *name;
} tfm__spm_fields[TFM__SPM_FIELDS] = {TFM__SPM_TABLE(TFM__SPM_ROW)};

/* Reads the known fields of a part of the file, each at most once, and skips others. An absent
   field has number 0 and its default value. Fields of other parts are not touched. */
static tfm_status tfm__spm_message(tfm__text_reader *r, int part, tfm__wire w,
                                   tfm__wire_field *fields) {
    static const int begins[] = {TFM__SPM_TEXT, TFM__SPM_MODEL_TYPE, TFM__SPM_CHARSMAP,
                                 TFM__SPM_FIELDS};
    int rows = part == TFM__SPM_DENORMALIZER ? TFM__SPM_NORMALIZER : part, i, got;
    int first = begins[rows - 1], end = begins[rows];
    tfm__wire_field f;
    for (i = first; i < end; i++) { /* for each piece, and memset would be a call */
        fields[i].number = 0;
        fields[i].value = tfm__spm_fields[i].absent;
        fields[i].bytes = NULL;
    }
    r->part = part;
    while ((got = tfm__wire_next(&w, &f)) != 0) {
        if (got < 0)
            return TFM__FAIL_TENSOR(r, "%s, byte %i: malformed field of %s", r->name,
                                    (int64_t)(w.at - r->begin), tfm__spm_parts[part]);
        for (i = first; i < end && tfm__spm_fields[i].number != f.number;) i++;
        if (i == end) continue;
        if (fields[i].number) return tfm__spm_fault(r, "duplicate ", tfm__spm_fields[i].name);
        if (f.type != tfm__spm_fields[i].type)
            return tfm__spm_fault(r, tfm__spm_fields[i].name, " has the wrong wire type");
        fields[i] = f;
    }
    return TFM_OK;
}

/* Reads a charsmap: 4 bytes with the size of its trie, the trie, the strings. Afterwards a walk
   needs no checks, because every node has its 256 possible children and its string inside. */
static tfm_status tfm__spm_charsmap(const tfm__text_reader *r, const tfm__wire_field *f,
                                    tfm__charsmap *m) {
    static const char *const name = "precompiled_charsmap: ";
    uint64_t bytes = f->value < 4 ? 0 : tfm__little_endian(f->bytes, 4);
    int64_t n_strings = (int64_t)(f->value - 4 - bytes), at, end;
    uint32_t n_units = (uint32_t)bytes / 4, outside, i;
    if (f->value == 0) return TFM_OK;
    if (bytes < 1024 || bytes % 1024 || bytes >= f->value - 4)
        return tfm__spm_fault(r, name, "its size does not fit its trie");
    m->units = f->bytes + 4;
    m->strings = (const char *)m->units + bytes;
    if (m->strings[n_strings - 1] != 0)
        return tfm__spm_fault(r, name, "its last string has no end");
    if (tfm__utf8_fault(m->strings, (size_t)n_strings) >= 0)
        return tfm__spm_fault(r, name, "its strings are not UTF-8");
    for (at = 0; at < n_strings; at = end + 1) { /* end: the last NUL that is close enough */
        end = tfm__min(at + TFM__LONGEST_RULE, n_strings - 1);
        while (end >= at && m->strings[end]) end--;
        if (end < at) return tfm__spm_fault(r, name, "a string has over 1024 bytes");
    }
    outside = tfm__charsmap_unit(m, 0) >> 31;
    for (i = 0; i < n_units; i++) {
        uint32_t unit = tfm__charsmap_unit(m, i), child = i ^ tfm__charsmap_offset(unit), leaf;
        outside |= (~unit >> 31) & (child >= n_units); /* bit 31: a value, which has no child */
        if ((unit & 0x80000100u) != 256 || outside) continue;
        leaf = tfm__charsmap_unit(m, child) & 0x7FFFFFFF;
        if (leaf >= n_strings || ((unsigned char)m->strings[leaf] & 0xC0) == 0x80)
            return tfm__spm_fault(r, name, "its trie points outside its strings");
    }
    return outside ? tfm__spm_fault(r, name, "its trie points outside") : TFM_OK;
}

/* ---- the trie ---- */

/* Returns 1 for a piece that text can become. BPE merges unused pieces to longer ones. */
static int tfm__is_text_piece(const tfm__sentencepiece *p, int32_t id) {
    return p->types[id] == TFM__PIECE_NORMAL || p->types[id] == TFM__PIECE_USER ||
           (p->types[id] == TFM__PIECE_UNUSED && p->bpe);
}

/* The sorted pieces have the nodes of each depth in order, so a piece appends a node to each depth
   beyond the bytes that it shares with the piece before. levels has the next node of each depth. */
static void tfm__trie_build(tfm__sentencepiece *p) {
    const tfm__vocabulary *v = &p->vocabulary;
    tfm__trie_node *nodes = p->trie.nodes;
    char *labels = p->trie.labels;
    int32_t *next = p->trie.levels, at, depth, n = 0;
    int64_t i;
    for (depth = 0; depth < p->trie.longest + 2; depth++) {
        at = next[depth];
        next[depth] = n, n += at;
    }
    nodes[0].children = 1;
    nodes[0].id = -1;
    for (i = 0; i < v->n; i++) {
        const tfm__spelling *s = tfm__sorted(v, i);
        for (at = 0, depth = p->trie.shared[i]; depth < s->size; depth++) {
            at = next[depth + 1]++;
            labels[at] = s->text[depth];
            nodes[at].children = next[depth + 2];
            nodes[at].id = -1;
        }
        TFM__COUNT_TEXT(s->size);
        if (tfm__is_text_piece(p, s->id)) nodes[at].id = s->id;
    }
    nodes[n].children = n;
    memset(p->trie.root, -1, sizeof p->trie.root);
    for (at = 1; at < nodes[1].children; at++) p->trie.root[(unsigned char)labels[at]] = at;
}

static int32_t tfm__trie_step(const tfm__trie *t, int32_t node, char c) {
    int32_t child = t->nodes[node].children, end = t->nodes[node + 1].children;
    if (node == 0) return t->root[(unsigned char)c];
    /* most nodes have few children, whose labels are in one cache line */
    while (child < end && t->labels[child] != c) child++;
    return child < end ? child : -1;
}
/* Returns the node to which size bytes of text lead from node, or -1. */
static int32_t tfm__trie_walk(const tfm__trie *t, int32_t node, const char *text, int32_t size) {
    int32_t i;
    for (i = 0; i < size && node >= 0; i++) node = tfm__trie_step(t, node, text[i]);
    TFM__COUNT_TEXT(i);
    return node;
}
/* Returns the piece that ends at a node, or -1. */
static int32_t tfm__trie_piece(const tfm__trie *t, int32_t node) {
    return node < 0 ? -1 : t->nodes[node].id;
}

/* ---- pieces and specs ---- */

/* Returns 0 to 255 for "<0x00>" to "<0xFF>", else -1. */
static int tfm__byte_of_piece(const char *text, int64_t size) {
    static const char digits[] = "0123456789ABCDEF";
    const char *high, *low;
    if (size != 6 || memcmp(text, "<0x", 3) != 0 || text[5] != '>') return -1;
    high = (const char *)memchr(digits, text[3], 16);
    low = (const char *)memchr(digits, text[4], 16);
    return high && low ? (int)(high - digits) * 16 + (int)(low - digits) : -1;
}

/* Reads a piece as the package writes it, faster than tfm__spm_message: a text of under 128 bytes,
   a score and perhaps a type, in this order. Returns 0 for others. */
static int tfm__spm_short_piece(tfm__wire w, tfm__wire_field *f) {
    int64_t size = w.end - w.at < 7 ? 0 : w.at[1], typed = w.end - w.at == size + 9;
    const unsigned char *score;
    if (w.end - w.at != size + 7 + 2 * typed || w.at[0] != (1 << 3 | TFM__WIRE_BYTES)) return 0;
    score = w.at + 2 + size;
    if (size > 127 || score[0] != (2 << 3 | TFM__WIRE_4)) return 0;
    f[TFM__SPM_TEXT].bytes = w.at + 2;
    f[TFM__SPM_TEXT].value = (uint64_t)size;
    f[TFM__SPM_SCORE].value = tfm__little_endian(score + 1, 4);
    f[TFM__SPM_TYPE].value = (uint64_t)(typed ? score[6] : (int)TFM__PIECE_NORMAL);
    return !typed || (score[5] == (3 << 3 | TFM__WIRE_VARINT) && score[6] < 0x80);
}

/* Reads a piece. trainer_spec comes before, because it says whether pieces of bytes are allowed. */
static tfm_status tfm__spm_piece(tfm__text_reader *r, tfm__sentencepiece *p, tfm__wire w) {
    tfm__wire_field f[TFM__SPM_FIELDS];
    tfm__spelling *s = &p->vocabulary.spellings[r->piece];
    int32_t id = (int32_t)r->piece;
    uint64_t type;
    int byte;
    r->part = TFM__SPM_PIECE;
    if (!tfm__spm_short_piece(w, f)) TFM__TRY(tfm__spm_message(r, TFM__SPM_PIECE, w, f));
    s->text = (const char *)f[TFM__SPM_TEXT].bytes;
    if (f[TFM__SPM_TEXT].value >= 8000) return tfm__spm_fault(r, "it has over 7999 bytes", "");
    s->size = (int32_t)f[TFM__SPM_TEXT].value;
    s->id = id;
    if (p->trie.longest < s->size) p->trie.longest = s->size;
    p->vocabulary.tokens[id] = id;
    p->vocabulary.sorted[id] = s;
    type = f[TFM__SPM_TYPE].value;
    if (type < TFM__PIECE_NORMAL || type > TFM__PIECE_BYTE)
        return tfm__spm_fault(r, "its type is unknown", "");
    p->scores[id] = tfm__float_from_bits((uint32_t)f[TFM__SPM_SCORE].value);
    if (!(p->scores[id] - p->scores[id] == 0))
        return tfm__spm_fault(r, "its score is not finite", "");
    if (s->size == 0) return tfm__spm_fault(r, "it is empty", "");
    if (tfm__utf8_fault(s->text, (size_t)s->size) >= 0)
        return tfm__fail(r->err, TFM_E_UTF8, "%s, piece %i: not UTF-8", r->name, r->piece);
    if (memchr(s->text, 0, (size_t)s->size)) {
        if (s->size > 1 || !p->byte_fallback) return tfm__spm_fault(r, "it has a NUL", "");
        type = TFM__PIECE_UNUSED; /* the package lets this one pass so */
    }
    if (type == TFM__PIECE_UNKNOWN) {
        if (p->unk >= 0) return tfm__spm_fault(r, "a second one of type unknown", "");
        p->unk = id;
    } else if (type == TFM__PIECE_BYTE) {
        byte = tfm__byte_of_piece(s->text, s->size);
        if (byte < 0) return tfm__spm_fault(r, "a byte that is not <0x00> to <0xFF>", "");
        if (!p->byte_fallback) return tfm__spm_fault(r, "a byte, and byte_fallback is false", "");
        p->bytes[byte] = id;
    } else if (type == TFM__PIECE_NORMAL && p->scores[id] < p->unk_score) {
        p->unk_score = p->scores[id];
    }
    if (type == TFM__PIECE_UNUSED) p->has_unused = 1;
    if (type == TFM__PIECE_USER) p->has_users = 1;
    p->types[id] = (unsigned char)type;
    return TFM_OK;
}

static tfm_status tfm__spm_specs(tfm__text_reader *r, tfm__sentencepiece *p,
                                 const tfm__wire *parts) {
    tfm__wire_field f[TFM__SPM_FIELDS];
    uint64_t type;
    int i;
    TFM__TRY(tfm__spm_message(r, TFM__SPM_TRAINER, parts[TFM__SPM_TRAINER], f));
    type = f[TFM__SPM_MODEL_TYPE].value;
    if (type != 1 && type != 2)
        return tfm__spm_fault(r, "model_type is ",
                              type == 3   ? "word, expected unigram or bpe"
                              : type == 4 ? "char, expected unigram or bpe"
                                          : "unknown, expected unigram or bpe");
    p->bpe = type == 2;
    p->suffix = f[TFM__SPM_SUFFIX].value != 0;
    p->byte_fallback = f[TFM__SPM_BYTES].value != 0;
    p->unk_surface = " \xE2\x81\x87 "; /* U+2047 */
    p->unk_surface_size = 5;
    if (f[TFM__SPM_UNK_SURFACE].number) {
        p->unk_surface = (const char *)f[TFM__SPM_UNK_SURFACE].bytes;
        p->unk_surface_size = (int64_t)f[TFM__SPM_UNK_SURFACE].value;
        if (tfm__utf8_fault(p->unk_surface, (size_t)p->unk_surface_size) >= 0)
            return tfm__fail(r->err, TFM_E_UTF8, "%s, trainer_spec: unk_surface is not UTF-8",
                             r->name);
    }
    TFM__TRY(tfm__spm_message(r, TFM__SPM_NORMALIZER, parts[TFM__SPM_NORMALIZER], f));
    p->dummy_prefix = f[TFM__SPM_DUMMY_PREFIX].value != 0;
    p->trim = f[TFM__SPM_TRIM].value != 0;
    p->escape = f[TFM__SPM_ESCAPE].value != 0;
    TFM__TRY(tfm__spm_charsmap(r, &f[TFM__SPM_CHARSMAP], &p->map));
    /* denormalization has rules alone: the package's trainer writes nothing else */
    TFM__TRY(tfm__spm_message(r, TFM__SPM_DENORMALIZER, parts[TFM__SPM_DENORMALIZER], f));
    for (i = TFM__SPM_DUMMY_PREFIX; i <= TFM__SPM_ESCAPE && f[TFM__SPM_CHARSMAP].value; i++)
        if (f[i].value)
            return tfm__spm_fault(r, tfm__spm_fields[i].name, " is true, which is not supported");
    return tfm__spm_charsmap(r, &f[TFM__SPM_CHARSMAP], &p->unmap);
}

/* Sets p->plain. ASCII needs no look-up if no rule and no user-defined piece begins with it, or
   only rules that go on with more than ASCII (a letter and its accent). */
static void tfm__spm_plain(tfm__sentencepiece *p) {
    const tfm__charsmap *m = &p->map;
    int32_t i;
    int c, d;
    for (c = 1; c < 128; c++) {
        uint32_t node = 0, next;
        if (c == ' ') continue;
        p->plain[c] = 1;
        if (!m->units || !tfm__charsmap_step(m, &node, (char)c)) continue;
        p->plain[c] = tfm__charsmap_unit(m, node) >> 8 & 1 ? 0 : 2;
        for (d = 0; d < 128; d++) {
            next = node;
            if (tfm__charsmap_step(m, &next, (char)d)) p->plain[c] = 0;
        }
    }
    for (i = 0; i < p->vocabulary.n; i++)
        if (p->types[i] == TFM__PIECE_USER)
            p->plain[(unsigned char)p->vocabulary.spellings[i].text[0]] = 0;
}

/* BPE may cut a text after or before space marks if no piece goes on there. */
static void tfm__spm_cuts(tfm__sentencepiece *p) {
    int32_t i;
    p->cuts[0] = p->cuts[1] = !p->has_unused;
    for (i = 0; i < p->vocabulary.n; i++) {
        const tfm__spelling *s = &p->vocabulary.spellings[i];
        int64_t at;
        int before = -1, here; /* whether the last character is a space mark */
        if (p->types[i] == TFM__PIECE_CONTROL || p->types[i] == TFM__PIECE_UNKNOWN) continue;
        for (at = 0; at < s->size; at += here ? TFM__SPACE_PIECE : 1) {
            here = tfm__begins_with_mark(s->text + at, s->size - at);
            if (before >= 0 && here != before) p->cuts[here] = 0;
            before = here;
        }
    }
}

/* Checks the parts together, sorts the pieces and counts the nodes of their trie. */
static tfm_status tfm__spm_finish(tfm__text_reader *r, tfm__sentencepiece *p) {
    tfm__vocabulary *v = &p->vocabulary;
    int64_t i;
    int32_t first = 0;
    if (p->unk < 0) return tfm__spm_fault(r, "the unknown piece is missing", "");
    for (i = 0; i < 256 && p->byte_fallback; i++)
        if (p->bytes[i] < 0)
            return TFM__FAIL_TENSOR(r, "%s, pieces: the piece of byte %i is missing", r->name, i);
    TFM__TRY(TFM__NEW(r->temporary, v->n, &p->trie.shared, r->err));
    TFM__TRY(tfm__sort_text(r, v->sorted, v->n, p->trie.shared, &i));
    if (i)
        return TFM__FAIL_TENSOR(r, "%s: pieces %i and %i are the same", r->name,
                                (int64_t)tfm__sorted(v, i - 1)->id, (int64_t)tfm__sorted(v, i)->id);
    p->unk_score -= 10.0f;
    for (i = 0; i < v->n; i++) /* the bonus that makes user-defined pieces win */
        if (!p->bpe && p->types[i] == TFM__PIECE_USER)
            p->scores[i] = 0.1f * (float)(v->spellings[i].size - 1);
    while (first < v->n && !tfm__is_text_piece(p, first)) first++;
    if (first == v->n) return tfm__spm_fault(r, "normal pieces are missing", "");
    p->trie.n_nodes = 1; /* a byte of the file makes one node at most, so an int32_t counts them */
    TFM__TRY(TFM__NEW(r->pool, p->trie.longest + 3, &p->trie.levels, r->err));
    memset(p->trie.levels, 0, (size_t)(p->trie.longest + 3) * sizeof *p->trie.levels);
    p->trie.levels[0] = 1;
    for (i = 0; i < v->n; i++) {
        int32_t size = tfm__sorted(v, i)->size, depth = p->trie.shared[i];
        p->trie.n_nodes += size - depth;
        while (depth < size) p->trie.levels[++depth]++;
    }
    return TFM_OK;
}

static tfm_status tfm__spm_build(tfm__sentencepiece *p, tfm__pool *pool, tfm_error *err) {
    tfm__trie *t = &p->trie;
    TFM__TRY(TFM__NEW(pool, t->n_nodes + 1, &t->nodes, err));
    TFM__TRY(TFM__NEW(pool, t->n_nodes, &t->labels, err));
    tfm__trie_build(p);
    tfm__spm_plain(p);
    if (p->bpe) tfm__spm_cuts(p);
    return TFM_OK;
}

/* Reads and checks a model file of size bytes into p, which is zero; tfm__spm_build makes it ready.
   The file stays where it is: spellings and rules are used there. */
static tfm_status tfm__spm_read(tfm__text_reader *r, tfm__sentencepiece *p,
                                const unsigned char *bytes, int64_t size) {
    tfm__vocabulary *v = &p->vocabulary;
    tfm__wire file = {bytes, bytes + size}, parts[6], w;
    tfm__wire_field f;
    int64_t n = 0;
    int got;
    if (size > INT32_MAX)
        return TFM__FAIL_TENSOR(r, "%s has %i bytes, more than 2147483647", r->name, size);
    memset(parts, 0, sizeof parts);
    r->begin = bytes;
    for (w = file; (got = tfm__wire_next(&w, &f)) != 0;) {
        if (got < 0)
            return TFM__FAIL_TENSOR(r, "%s, byte %i: malformed field", r->name,
                                    (int64_t)(w.at - bytes));
        if (f.number > TFM__SPM_DENORMALIZER || !tfm__spm_parts[f.number]) continue;
        r->part = (int)f.number;
        r->piece = n;
        if (f.type != TFM__WIRE_BYTES)
            return TFM__FAIL_TENSOR(r, "%s, field %i: wrong wire type", r->name, (int64_t)f.number);
        if (r->part == TFM__SPM_PIECE) {
            /* memory is in proportion to the file: a piece has at least 5 bytes there */
            if (f.value < 3) return tfm__spm_fault(r, "it is empty", "");
            n++;
            continue;
        }
        if (parts[r->part].at) return tfm__spm_fault(r, "duplicate field", "");
        parts[r->part] = tfm__wire_inside(&f);
    }
    r->part = 0;
    if (n == 0) return tfm__spm_fault(r, "missing", "");
    TFM__TRY(tfm__spm_specs(r, p, parts));
    TFM__TRY(TFM__NEW(r->pool, n, &v->spellings, r->err));
    TFM__TRY(TFM__NEW(r->pool, n, &v->sorted, r->err));
    TFM__TRY(TFM__NEW(r->pool, n, &v->tokens, r->err));
    TFM__TRY(TFM__NEW(r->pool, n, &p->scores, r->err));
    TFM__TRY(TFM__NEW(r->pool, n, &p->types, r->err));
    p->unk = -1;
    p->unk_score = 3.402823466e+38f;
    memset(p->bytes, -1, sizeof p->bytes);
    r->piece = 0;
    for (w = file; tfm__wire_next(&w, &f) > 0;) {
        if (f.number != TFM__SPM_PIECE) continue;
        TFM__TRY(tfm__spm_piece(r, p, tfm__wire_inside(&f)));
        r->piece++;
    }
    v->n = (int32_t)n;
    v->n_spellings = n;
    r->part = 0;
    return tfm__spm_finish(r, p);
}

/* ---- text to normalized text ---- */

enum { TFM__MOST_USERS = 64 }; /* user-defined pieces at one place that count */

/* Finds the longest user-defined piece that text begins with. Returns its bytes, 0: none. */
static int64_t tfm__spm_match_user(const tfm__sentencepiece *p, const char *text, int64_t size,
                                   int32_t *id) {
    int64_t i, length = 0;
    int32_t node = 0, piece;
    int found = 0;
    if (!p->has_users) return 0;
    for (i = 0; i < size && found < TFM__MOST_USERS; i++) {
        node = tfm__trie_step(&p->trie, node, text[i]);
        if (node < 0) break;
        piece = p->trie.nodes[node].id;
        if (piece < 0 || p->types[piece] != TFM__PIECE_USER) continue;
        *id = piece;
        length = i + 1;
        found++;
    }
    TFM__COUNT_TEXT(i + 1);
    return length;
}

/* Applies the rules where a text begins, as tfm__mapped_prefix, but keeps user-defined pieces. */
static int64_t tfm__spm_prefix(const tfm__sentencepiece *p, const char *text, int64_t size,
                               const char **out, int64_t *n) {
    int32_t id;
    *out = text;
    *n = tfm__spm_match_user(p, text, size, &id);
    return *n ? *n : tfm__mapped_prefix(&p->map, text, size, out, n);
}

/* Returns whether a space mark goes before bytes i to size of a text, which had whitespace from
   begin to i. SentencePiece puts one before each text. With the config's prefix_space (tokenizers'
   Metaspace) there is none where a text begins with one; and with "first" only where the text's
   first character becomes the first one. */
static int tfm__spm_wants_mark(const tfm__side *side, const char *text, int64_t begin, int64_t i,
                               int64_t size) {
    const tfm__sentencepiece *p = side->spm;
    const char *part = text;
    int64_t n = 0;
    if (p->suffix && p->dummy_prefix) return 0;
    if (i > begin && side->keep_trailing) return 1;
    if (!p->dummy_prefix || (side->prefix_space == 2 && i > 0)) return 0;
    if (!side->prefix_space) return 1;
    while (i < size && !n && (i == 0 || side->prefix_space != 2)) {
        i += tfm__spm_prefix(p, text + i, size - i, &part, &n);
        for (; p->trim && n && *part == ' '; n--) part++;
    }
    return n && *part != ' ' && !tfm__begins_with_mark(part, n);
}

/* Normalizes bytes i to size of a text. The rules for whitespace: none at the front, one between
   words, none at the end (where normalizer_spec says so, and the side does not keep it); a mark for
   each that is left, and one more before or behind the whole (tfm__spm_wants_mark). */
static void tfm__spm_normalize(const tfm__side *side, const char *text, int64_t i, int64_t size,
                               tfm__normal *o) {
    const tfm__sentencepiece *p = side->spm;
    const char *space = p->escape ? tfm__space_piece : " ", *part;
    int64_t space_size = p->escape ? TFM__SPACE_PIECE : 1, capacity = o->capacity, n, k, at,
            begin = i, from = o->n;
    int after_space = p->trim;
    int keeps = side->keep_trailing == 1 || (side->keep_trailing && o->before_added);
    while (p->trim && i < size) {
        k = tfm__spm_prefix(p, text + i, size - i, &part, &n);
        if (n != 1 || *part != ' ') break;
        i += k;
    }
    if (i == size && i > begin && keeps) /* whitespace between added tokens */
        tfm__normal_put(o, space, space_size, begin);
    if (i == size) return;
    if (tfm__spm_wants_mark(side, text, begin, i, size)) tfm__normal_put(o, space, space_size, i);
    while (i < size) {
        unsigned char c = (unsigned char)text[i];
        at = i;
        if (p->plain[c] == 1 ||
            (p->plain[c] == 2 && (i + 1 == size || (unsigned char)text[i + 1] < 0x80))) {
            if (o->n < o->capacity) o->text[o->n++] = text[i]; /* nobody asks for origins */
            else tfm__normal_put(o, text + i, 1, at);
            TFM__COUNT_TEXT(1);
            i++;
            after_space = 0;
            continue;
        }
        if (c >= 0xC2 && !p->has_users &&
            !tfm__charsmap_match(&p->map, text + i, size - i, &part)) {
            n = tfm__utf8_size(c); /* a whole character, and most of them */
            tfm__normal_put(o, text + i, n, at);
            i += n;
            after_space = 0;
            continue;
        }
        i += tfm__spm_prefix(p, text + i, size - i, &part, &n);
        for (; after_space && n && *part == ' '; n--) part++;
        if (n == 0) continue;
        after_space = p->trim && part[n - 1] == ' ';
        for (k = 0; k < n; k++) {
            if (part[k] == ' ') tfm__normal_put(o, space, space_size, at);
            else tfm__normal_put(o, part + k, 1, at);
        }
    }
    if (p->trim && o->n <= capacity && !keeps)
        while (o->n - from >= space_size &&
               memcmp(o->text + o->n - space_size, space, (size_t)space_size) == 0)
            o->n -= space_size;
    if (p->dummy_prefix && p->suffix) tfm__normal_put(o, space, space_size, size);
}

/* ---- normalized text to pieces ---- */

/* Keeps the better way to end. Cells up to the frontier are set; from.piece is -1 where no way
   ends. */
static void tfm__unigram_offer(tfm__cell *cells, int32_t *frontier, int32_t start, int32_t end,
                               int32_t id, float score) {
    while (*frontier < end) cells[++*frontier].from.piece = -1;
    if (cells[end].from.piece >= 0 && !(score > cells[end].score)) return;
    cells[end].score = score;
    cells[end].from.piece = start;
    cells[end].id = id;
}

/* Cuts text into the pieces whose scores have the highest sum; of equal ways, the one that is found
   first. Scores are rounded to float after every addition, and reduced when they grow large, as the
   package does. Otherwise ties would be decided differently. */
static void tfm__unigram_encode(tfm__lattice *b, int32_t from, int32_t to) {
    const tfm__sentencepiece *p = b->side->spm;
    const char *text = b->text + from;
    tfm__cell *cells = b->cells + from;
    const float limit = 100000.0f;
    int32_t n = to - from, start, size, end, id, frontier = 0;
    memset(cells, 0, sizeof *cells);
    for (start = 0; start < n; start += size) {
        float here = cells[start].score;
        int32_t node = 0, piece;
        int single = 0;
        if (here < -limit || here > limit) {
            for (end = start; end <= frontier; end++)
                if (end == start || cells[end].from.piece >= 0) cells[end].score -= here;
            here = 0;
            TFM__COUNT_TEXT(frontier - start);
        }
        size = tfm__utf8_size((unsigned char)text[start]);
        for (end = start; end < n;) {
            node = tfm__trie_step(&p->trie, node, text[end]);
            if (node < 0) break;
            end++;
            piece = p->trie.nodes[node].id;
            if (piece < 0) continue;
            tfm__unigram_offer(cells, &frontier, start, end, piece, p->scores[piece] + here);
            if (end - start == size) single = 1;
        }
        TFM__COUNT_TEXT(end - start + 1);
        if (!single)
            tfm__unigram_offer(cells, &frontier, start, start + size, p->unk, p->unk_score + here);
    }
    id = cells[n].id;
    for (end = n; end > 0; end = start) { /* turns the links of the way round */
        int32_t id_before;
        start = cells[end].from.piece;
        id_before = cells[start].id;
        cells[start].to.next = from + end;
        cells[start].id = id;
        id = id_before;
    }
}

/* Finds a pair for SentencePiece. A symbol is a node of the trie, and a pair must spell a piece. */
static int tfm__spm_find_pair(tfm__lattice *b, int32_t left, tfm__pair *pair) {
    const tfm__sentencepiece *p = b->side->spm;
    const tfm__cell *l = &b->cells[left], *r = l + l->to.size;
    int32_t node = tfm__trie_walk(&p->trie, l->id, b->text + left + l->to.size, r->to.size);
    int32_t id = tfm__trie_piece(&p->trie, node);
    if (id < 0) return 0;
    if (p->types[id] == TFM__PIECE_UNUSED) b->splits[id] = l->to.size;
    memcpy(&pair->rank, &p->scores[id], sizeof pair->rank);
    if (pair->rank < 0) pair->rank ^= 0x7FFFFFFF; /* compares as the score does, -0 before 0 */
    pair->symbol = node;
    return 1;
}

enum { TFM__BPE_DEPTH = 100 }; /* to which the package splits unused pieces */

/* Replaces an unused piece by the two pieces that it was merged from, and so on recursively. */
static void tfm__spm_split(tfm__lattice *b, int32_t at, int32_t size, int depth) {
    const tfm__sentencepiece *p = b->side->spm;
    int32_t id = tfm__trie_piece(&p->trie, tfm__trie_walk(&p->trie, 0, b->text + at, size)),
            left = -1;
    if (id >= 0 && p->types[id] == TFM__PIECE_UNUSED && depth <= TFM__BPE_DEPTH) {
        left = b->splits[id];
        if (left < 0) id = -1; /* one that nothing was merged to is not text; one too deep stays */
    }
    if (left > 0) {
        tfm__spm_split(b, at, left, depth + 1);
        tfm__spm_split(b, at + left, size - left, depth + 1);
    } else {
        b->cells[at].to.next = at + size;
        b->cells[at].id = id < 0 ? p->unk : id;
    }
}

/* Cuts text into characters and user-defined pieces, then merges the pair with the best score, the
   leftmost first, until no pair is a piece. */
static void tfm__spm_bpe_encode(tfm__lattice *b, int32_t from, int32_t to) {
    const tfm__sentencepiece *p = b->side->spm;
    int32_t at, last = -1, size, id = 0;
    int space, was_space = 0;
    b->find_pair = tfm__spm_find_pair;
    for (at = from; at < to; at += size) {
        tfm__cell *cell = &b->cells[at];
        size = (int32_t)tfm__spm_match_user(p, b->text + at, to - at, &id);
        cell->id = -2 - id;
        if (!size) {
            size = tfm__utf8_size((unsigned char)b->text[at]);
            cell->id = tfm__trie_walk(&p->trie, 0, b->text + at, size);
        }
        /* merges what no later piece can join, because small heaps are fast */
        space = tfm__begins_with_mark(b->text + at, size);
        if (space != was_space && p->cuts[space]) {
            tfm__bpe_merge(b);
            last = -1;
        }
        tfm__bpe_append(b, at, size, last);
        last = at;
        was_space = space;
    }
    tfm__bpe_merge(b);
    for (at = from; at < to; at += size) {
        tfm__cell *cell = &b->cells[at];
        size = cell->to.size;
        id = cell->id < -1 ? -2 - cell->id : tfm__trie_piece(&p->trie, cell->id);
        cell->to.next = at + size;
        cell->id = id < 0 ? p->unk : id;
        if (id >= 0 && p->types[id] == TFM__PIECE_UNUSED) tfm__spm_split(b, at, size, 0);
    }
}

/* ---- the interface ---- */

static void tfm__spm_encode(tfm__lattice *b, int32_t from, int32_t to) {
    if (b->side->spm->bpe) tfm__spm_bpe_encode(b, from, to);
    else tfm__unigram_encode(b, from, to);
}

static void tfm__spm_attach(tfm__side *side, tfm__sentencepiece *p) {
    side->spm = p;
    side->marks_once = !p->trim;
    side->marks = p->dummy_prefix || p->trim;
}

/* Loads a side's model; a target may share the source's. Without a vocabulary, ids are pieces. */
static tfm_status tfm__spm_load(tfm__loader *l, tfm__side *side, const tfm__side *shared) {
    tfm__sentencepiece *p = shared ? shared->spm : NULL;
    tfm__text_reader r;
    tfm_tensor t;
    TFM__TRY(tfm__text_open(l, side, "sentencepiece", &r, &t));
    if (t.data) {
        TFM__TRY(TFM__NEW(r.pool, 1, &p, l->err));
        memset(p, 0, sizeof *p);
        TFM__TRY(tfm__spm_read(&r, p, (const unsigned char *)t.data, t.dims[0]));
    }
    if (!p) return tfm__text_missing(l, side, "sentencepiece");
    tfm__spm_attach(side, p);
    side->keep_trailing = l->model->config.trailing_space;
    side->unk_piece = shared ? -1 : p->unk;
    TFM__TRY(tfm__vocabulary_load(l, side, shared));
    if (side->vocabulary.n) return TFM_OK;
    if (p->vocabulary.n > side->embedding->rows)
        return TFM__FAIL_TENSOR(
            l,
            "%s_sentencepiece has %d pieces, its embedding %i rows, and there is no %s_vocabulary",
            side->name, p->vocabulary.n, side->embedding->rows, side->name);
    side->vocabulary = p->vocabulary;
    return TFM_OK;
}

/* Builds the model, and maps its pieces to ids by their spellings. */
static tfm_status tfm__spm_build_side(tfm__loader *l, tfm__side *side, const tfm__side *shared) {
    const tfm__vocabulary *pieces = &side->spm->vocabulary;
    tfm__pool *pool = &l->model->pool;
    int32_t i;
    if (!shared || side->spm != shared->spm) TFM__TRY(tfm__spm_build(side->spm, pool, l->err));
    if (!side->vocabulary.text) return TFM_OK;
    TFM__TRY(TFM__NEW(pool, pieces->n, &side->ids, l->err));
    for (i = 0; i < pieces->n; i++)
        side->ids[i] = tfm__find_token(&side->vocabulary, pieces->spellings[i].text,
                                       pieces->spellings[i].size);
    return TFM_OK;
}

/* Cuts a piece. Neighbouring unknown characters are one unknown piece, or a token for each byte. */
static int tfm__spm_next(tfm__token_cursor *c, tfm__token *token) {
    const tfm__sentencepiece *p = c->side->spm;
    const tfm__cell *cells = c->cells;
    const char *text = c->text.data;
    size_t size = c->text.size, at = c->at;
    int32_t piece;
    if (at >= size) return 0;
    if (at >= c->last) {
        c->first = at;
        c->last = (size_t)cells[at].to.next;
        while (cells[at].id == p->unk && !p->byte_fallback && c->last < size &&
               cells[c->last].id == p->unk)
            c->last = (size_t)cells[c->last].to.next;
    }
    token->text = tfm_text_make(text + c->first, c->last - c->first);
    token->begin = c->first;
    token->end = c->last;
    piece = cells[c->first].id;
    c->at = c->last;
    if (piece == p->unk && p->byte_fallback) {
        piece = p->bytes[(unsigned char)text[at]];
        c->at = at + 1;
        if (c->at < c->last) token->end = token->begin; /* the last byte has the span */
    } else if (piece == p->unk) {
        /* its own spelling may be in a vocabulary */
        token->id = !c->side->ids ? c->side->unk_piece
                                  : tfm__find_token(&c->side->vocabulary, token->text.data,
                                                    (int64_t)token->text.size);
        return 1;
    }
    token->id = c->side->ids ? c->side->ids[piece] : piece;
    TFM__COUNT_TEXT(1);
    return 1;
}

static void tfm__spm_join(tfm__joined *j, int32_t id) {
    const tfm__sentencepiece *p = j->side->spm;
    int32_t piece = j->side->pieces[id];
    int type = piece >= 0 ? p->types[piece] : 0;
    const tfm__spelling *s = piece >= 0 ? &p->vocabulary.spellings[piece]
                                        : tfm__join_spelling(j, id);
    if (type == TFM__PIECE_BYTE) {
        tfm__join_byte(j, tfm__byte_of_piece(s->text, s->size));
        return;
    }
    tfm__join_broken(j);
    if (!s || type == TFM__PIECE_CONTROL) return;
    if (piece == p->unk) tfm__join_bytes(j, p->unk_surface, p->unk_surface_size);
    else tfm__join_token(j, s->text, s->size);
}

/* >>bytebpe =======================================================================================
   28. BYTE-LEVEL BPE
   This is GPT-2's tokenizer (Radford et al. 2019). A regular expression cuts a text into words. At
   first each byte of a word is a token. Then two neighbours become one token, again and again:
   those whose merge is the first in the file, and of equal ones the leftmost. The ids are those of
   the package tokenizers 0.23 (tests/compare/compare_byte_bpe.py). A word of n bytes takes O(n log
   n) steps (tfm__bpe_merge), each with at most one look-up among the merges of its left token.
   Legend: V tokens of the vocabulary; a letter is the character by which the vocabulary spells a
   byte.
   ============================================================================================== */

/* Runs of one class, from Unicode 16.0.0; tests/make/unicode_classes.py tells the encoding. */
enum { TFM__N_CLASS_RUNS = 1994 };
static const char tfm__class_runs[] =
    "(s$dy&_mca&_(oayhaaidbala%ua&sa$<{m$k$sqyaaa%]0eraeemaauaaiaaa%ia,wa3ia{6pa'meau'y}(iacagaga"
    "c}&cmm&k$iq(_%o$emec.taa{ewfgaof$djea${ac&p&ee-m$ib$s$d&|$afmaece%qob$abkbs%a%}km$gq%yau}$a'"
    "~%{a&})jkb%cb{$dge$da${ka}eee%qayaaimecb{egekb}cmeaige$dfexeaacekaumee%qayaeaeaeecasmgekicym"
    "aay$dgjc$gka$_aia%qayaeaqecb$]akakea$wege$d$_awaka}eee%qayaeaqecb{egekykmeaige$daax$ccbauiia"
    "mieaaaeieiii$kmsikaoeauc$s$dl$os~aia%ua${ecb{akaoygaieaeege$d}|aaka}aia%ua$caqecb{akaoygueae"
    "ge$daec$ko$`aia'ygb{akaobqic|jge$d$bauaka%ai%ya$_aaeyicmwaca$]u$deg$o(scf{qy$]a$d'qeaaaqa%ya"
    "aa$ccf$abeqaaa{a$dem&wa%ugu$d$facacacmg~a'em%kagr$ia'g$_c)u(_%kb$duuonkbkf{jo$p$mbc$eoe'maaq"
    "ae(_a$.cameyaaame'yame&{ameyaaame$wa)uame*{ek$_%li${${-aeui%3}e%]a&_q+yij~y%ao$_%ek$g%ag$k$o"
    "aiag$k)a&yiamace$du$f%]kac$eu-myqg'^cbq+e$c&sa$mm$m$c$d&peq$g(cm&_u$dd'i%usm)e$ea&mec$eu$d$o"
    "a}&u(ws(p%_~i$d%]$a$kk&p$qf$d(d$u$k'e%k}$dii$d'fe$gq(_ei${ka%oncvcfkbq9q*q$'veue'meue}aaaaaa"
    "a&se)eayaaiiayimeum$oqiay$wg(wg%ec&cdbexqa$fu$o)]&}%]amae$caaiquaaaaaama$gemqqmaa$~'cfnd&$k*"
    "b&_)c%t%5a&r'8c=}umkf$_de'maaqae)qya$wc%v$_yayayayayayayaya&y(oa$>ceb%}$`waqejfm-aegeia-qamq"
    "(_a._ip$c&w(s${&w$f&o$^a$z&w$f'q$z$,s>6o*o&,%u*{(ke$&si${$df%i(ooa$ea&sg+f$dg'i$_e/ae*{eeaaa"
    "}%m${cjcnc%vsmcix$c)a$kg(|%c$c$du%cviaaec$e&h$]e%u$q$k&kio(p$u$sa$duqc$d$dra'y$u$_ic~ge$du%u"
    "iak(|cbkfgrgbcb%yie$gseig$cueueu$_yaya(_a$su0o$]age$du$5=i$k%um(w$*1i$2_e/m'my$kqqac$da$oaqa"
    "aaeaea/u&{$1u%a*oe)i'u$km$}${$}ig%yk&wqa2{%e$dy&_mca&_$g-miueueuei'a$ka&_a%eaea$we$s']1m$k(j"
    "$k)fp%]h0gc2g&ki(w$wc&fm&wp$_%ib~bq'msq&oe'em}ar'}5qe$du'em'em'u})a$k$ga$wayaea$ga$wayaei)a$"
    "k$+q$_%q$c}%yua'}a$_+aueaa(caeiae%ue$^%ve|&t}$b(s%eaeqt%rxm&_+e)qmhf$~e(nbkagqonaia&kekmc$b%"
    "u&kha&kl&w}a&ggmt${)i$c%qe$^%fq$^%b%u|,k+q)m)]$o)]yx'fo}$du$d&hisa%u<s&va'}agie${i)mo&l$fb}%"
    "q$ip&c%ao'}%m|%i%u$_k)f$y$g%l$ecfgb$_o(h$iyc$o%}y$duk'f$ua$dmagb}'acea$_k(t$unmoag$ebaam%l$g"
    "%aa%}$mucfc*gyaaama$wa$cy(o$mq$duoa}eee%qayaeaqagb{egekeaucqqge{is$g$caaeaa'maa$aacecaoasbcb"
    "$og&k)e%cnq$dmcj&o(s%kfaa}$d6o(o{e$a%umg'](s%_ia$g$d'm(_$qby$du%j&g&ce$ym$dhmy8w(c$y.{*o$d$b"
    "$k}eae}aea%ywageobcbg$k$d+e}e'q{e{baac&ca$e'v{bo}c}a$i(l$}ia%a+q:k&{$w$du$_a'i$]a$]b$w$d%hq&"
    "oe%sa$u+qyaea'mwicaga{bc}$duuaea&wsagasby$d$+m%eo$_gbc$pa']{is$o$dc-]a$w%p(_&;m/]0`%]:_.%a.k"
    "$w'1a${cv$y$c39]q%/q$#7y&o%c$e*+]%-}y&sa$du,ga$du&oes$g(s{$_m$k$da|a%mq%e$9y(gi$d:g*o%x/i+ym"
    "cb)oyo$p*oeaac$gg$s<8{}((s'y$c$,2cmayaea$)e$wa&kiea$sm}$5q,6o/qq$oi$_y$cig42k$d%'}(me%w%*wsi"
    "w}$]e{&oo4kk1m%l$k%l/u&^2{-]a+iaeeaeeema$kaaaya*same}aya&gamaqaaiya$/]e%}a%}a&sa%}a&sa%}a&sa"
    "%}a&sa%}a}e(|%'e)om(}}c$sc%qsa$y'4{&suu<_{a%_e{agasq*g&{c0c(gi{ze$dma$,w&oc%](co$e$>g&go$e<c"
    "&ogb$d%$_yamaea$wa:ce$b|'y+]{bm$d&,_*^alap+}(ja$z9yma&caeaaeaa$camaaaauamaaaaaaiaeaaeaaaaaaa"
    "aaaeaaemayamamaaa$ca%]qiaqa%]%/e$r'a&au&au&a.(c$d',c).0{&w4/uu=ae;({$s$&.c$w%4c--a%*w),c78_q"
    "44c&9:5q$#g$$/#]";
/* A mark is another character of words; other numbers are in no word. */
enum { TFM__CLASS_OTHER, TFM__CLASS_LETTER, TFM__CLASS_NUMBER, TFM__CLASS_MARK };
enum { TFM__CLASS_OTHER_NUMBER = 4, TFM__CLASS_SPACE };
enum { TFM__LOW_CHARACTERS = 0x800 }; /* whose class is looked up without a search */

typedef struct tfm__classes {
    uint32_t runs[TFM__N_CLASS_RUNS]; /* first character << 3 | class */
    unsigned char low[TFM__LOW_CHARACTERS];
} tfm__classes;

static int tfm__class_of(const tfm__classes *classes, uint32_t c) {
    int64_t run = 0;
    if (c < TFM__LOW_CHARACTERS) return classes->low[c];
    TFM__BISECT(run, TFM__N_CLASS_RUNS, middle, classes->runs[middle] >> 3 <= c)
    return tfm__is_space(c) ? TFM__CLASS_SPACE : (int)(classes->runs[run - 1] & 7);
}

static void tfm__build_classes(tfm__classes *classes) {
    const char *digit = tfm__class_runs;
    uint32_t at = 0, end, kind = TFM__CLASS_LETTER, i;
    for (i = 0; i < TFM__N_CLASS_RUNS; i++) {
        uint32_t number = 0;
        for (; *digit < ']'; digit++) number = 28 * number + (uint32_t)(*digit - '#');
        number = 34 * number + (uint32_t)(*digit++ - ']');
        kind = (number & 3) + ((number & 3) >= kind); /* never the class of the run before */
        classes->runs[i] = at << 3 | kind;
        for (end = at + (number >> 2); at < end && at < TFM__LOW_CHARACTERS; at++)
            classes->low[at] =
                (unsigned char)(tfm__is_space(at) ? (uint32_t)TFM__CLASS_SPACE : kind);
        at = end;
    }
}

/* What a token and the one behind it become, by the file's merges. */
typedef struct tfm__merge {
    int32_t right, rank, becomes;
} tfm__merge;

struct tfm__byte_bpe {
    tfm__merge *merges; /* [n], by left token, then by right */
    int32_t *ends;      /* [V]: behind the last merge of a left token */
    int32_t bytes[256]; /* tokens of single bytes, -1: none */
    tfm__classes classes;
};

static uint32_t tfm__letter_of_byte(uint32_t b) {
    if (b <= 0x20) return 0x100 + b;
    if (b >= 0x7F && b <= 0xA0) return 0x100 + 0x21 + b - 0x7F;
    return b == 0xAD ? 0x143 : b;
}
/* Returns the byte that a character stands for, or -1. */
static int tfm__byte_of_letter(uint32_t c) {
    uint32_t b = c < 0x100 ? c : c <= 0x120 ? c - 0x100 : c <= 0x142 ? c - 0x121 + 0x7F : 0xAD;
    return tfm__letter_of_byte(b) == c ? (int)b : -1;
}

/* Finds a pair for byte-level BPE: two tokens that the file merges. */
static int tfm__byte_bpe_find_pair(tfm__lattice *b, int32_t at, tfm__pair *pair) {
    const tfm__byte_bpe *p = b->side->bpe;
    int32_t left = b->cells[at].id, right = b->cells[at + b->cells[at].to.size].id;
    int64_t i = left ? p->ends[left - 1] : 0, end = p->ends[left];
    TFM__BISECT(i, end, middle, p->merges[middle].right < right)
    if (i == end || p->merges[i].right != right) return 0;
    pair->rank = -p->merges[i].rank;
    pair->symbol = p->merges[i].becomes;
    return 1;
}

/* ---- the model file ---- */

enum { TFM__MOST_MERGED = 8000 }; /* bytes of what a merge makes, as a vocabulary spells it */

/* Returns whether the line whole is spelled as left and right together. */
static int tfm__is_join(const char *left, const char *right, const char *whole) {
    const char *end = whole + TFM__MOST_MERGED;
    for (; !tfm__is_line_end(*left) && *left == *whole && whole < end; left++) whole++;
    if (!tfm__is_line_end(*left)) return 0;
    for (; !tfm__is_line_end(*right) && *right == *whole && whole < end; right++) whole++;
    TFM__COUNT_TEXT(TFM__MOST_MERGED - (end - whole) + 1);
    return tfm__is_line_end(*right) && tfm__is_line_end(*whole);
}

/* Returns the two tokens of a row of merges as one number, in the order of sorted merges. */
static uint64_t tfm__merge_pair(const void *row) {
    const unsigned char *m = (const unsigned char *)row;
    return tfm__little_endian(m, 4) << 32 | tfm__little_endian(m + 4, 4);
}
static int tfm__compare_merges(const void *a, const void *b) {
    uint64_t x = tfm__merge_pair(a), y = tfm__merge_pair(b);
    TFM__COUNT_TEXT(1);
    return x < y ? -1 : x > y;
}

/* Checks merges against the side's vocabulary, and sorts them. */
static tfm_status tfm__read_merges(tfm__loader *l, tfm__side *side, const tfm_tensor *merges) {
    const tfm__vocabulary *v = &side->vocabulary;
    unsigned char *m = (unsigned char *)merges->data;
    tfm__byte_bpe *p = side->bpe;
    int64_t n = merges->dims[0], i, k, id;
    void **rows;
    if (n > INT32_MAX || merges->dims[1] != 3)
        return TFM__FAIL_TENSOR(l, "%s_merges is %t, expected [n, 3]", side->name, merges);
    TFM__TRY(TFM__NEW(&l->model->pool, n, &p->merges, l->err));
    TFM__TRY(TFM__NEW(&l->model->pool, v->n, &p->ends, l->err));
    TFM__TRY(TFM__NEW(&l->file->pool, n, &rows, l->err));
    for (i = 0; i < n; i++) {
        const char *line[3];
        rows[i] = m + 12 * i;
        for (k = 0; k < 3; k++) {
            id = tfm__u32_at(m, 3 * i + k);
            if (id >= v->n)
                return TFM__FAIL_TENSOR(l, "%s_merges, row %i: token %i, the vocabulary has %d",
                                        side->name, i, id, v->n);
            line[k] = v->text + v->line_offsets[id];
        }
        if (!tfm__is_join(line[0], line[1], line[2]))
            return TFM__FAIL_TENSOR(
                l,
                "%s_merges, row %i: the third token is not spelled as the other two, "
                "in at most %d bytes",
                side->name, i, (int32_t)TFM__MOST_MERGED);
    }
    tfm__sort(rows, n, tfm__compare_merges);
    for (i = id = 0; i < n; i++) {
        const unsigned char *row = (const unsigned char *)rows[i];
        tfm__merge *merge = &p->merges[i];
        if (i && tfm__compare_merges(rows[i - 1], row) == 0)
            return TFM__FAIL_TENSOR(l, "%s_merges: rows %i and %i merge the same", side->name,
                                    tfm__min(merge[-1].rank, (row - m) / 12),
                                    tfm__max(merge[-1].rank, (row - m) / 12));
        while (id < (int64_t)(tfm__merge_pair(row) >> 32)) p->ends[id++] = (int32_t)i;
        merge->right = (int32_t)tfm__u32_at(row, 1);
        merge->becomes = (int32_t)tfm__u32_at(row, 2);
        merge->rank = (int32_t)((row - m) / 12);
    }
    while (id < v->n) p->ends[id++] = (int32_t)n;
    return TFM_OK;
}

static tfm_status tfm__byte_bpe_load(tfm__loader *l, tfm__side *side, const tfm__side *shared) {
    int has_vocabulary;
    tfm_tensor merges;
    TFM__TRY(tfm__vocabulary_load(l, side, shared));
    has_vocabulary = side->vocabulary.text &&
                     (!shared || side->vocabulary.text != shared->vocabulary.text);
    TFM__TRY(tfm__load_array(l, side->name, "_merges", TFM_DTYPE_U32, 2, NULL, &merges));
    side->bpe = shared ? shared->bpe : NULL;
    if (!has_vocabulary && !merges.rank && side->bpe) return TFM_OK;
    if (!has_vocabulary || !merges.rank)
        return tfm__text_missing(l, side, has_vocabulary ? "merges" : "vocabulary");
    TFM__TRY(TFM__NEW(&l->model->pool, 1, &side->bpe, l->err));
    memset(side->bpe, 0, sizeof *side->bpe);
    return tfm__read_merges(l, side, &merges);
}

static tfm_status tfm__byte_bpe_build(tfm__loader *l, tfm__side *side, const tfm__side *shared) {
    tfm__byte_bpe *p = side->bpe;
    char letter[4];
    int64_t i;
    (void)l;
    if (shared && shared->bpe == p) return TFM_OK;
    tfm__build_classes(&p->classes);
    for (i = 0; i < 256; i++) {
        char *end = tfm__utf8_put(letter, tfm__letter_of_byte((uint32_t)i));
        p->bytes[i] = tfm__find_token(&side->vocabulary, letter, end - letter);
    }
    return TFM_OK;
}

/* ---- text to tokens ---- */

/* Returns the class of the character at byte at as GPT-2's expression has it. *n is its bytes. */
static int tfm__class_at(const tfm__byte_bpe *p, const char *text, size_t size, size_t at, int *n) {
    uint32_t c = (unsigned char)text[at];
    int kind;
    *n = c < 0x80 ? 1 : tfm__utf8_next(text + at, size - at, &c);
    kind = tfm__class_of(&p->classes, c);
    if (kind == TFM__CLASS_MARK) return TFM__CLASS_OTHER;
    return kind == TFM__CLASS_OTHER_NUMBER ? TFM__CLASS_NUMBER : kind;
}

/* Returns where the word that begins at byte at ends, by GPT-2's expression:
   's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+ */
static size_t tfm__word_end(const tfm__byte_bpe *p, const char *text, size_t size, size_t at) {
    static const char contractions[] = "s t revem lld ";
    size_t i, last = at;
    int n, kind, k;
    for (k = 0; text[at] == '\'' && k < 14; k += 2) {
        n = contractions[k + 1] == ' ' ? 1 : 2;
        if (size - at > (size_t)n && memcmp(text + at + 1, contractions + k, (size_t)n) == 0)
            return at + 1 + (size_t)n;
    }
    kind = tfm__class_at(p, text, size, at, &n);
    i = at + (size_t)n;
    if (text[at] == ' ' && i < size) {
        int next = tfm__class_at(p, text, size, i, &n);
        if (next != TFM__CLASS_SPACE) kind = next;
    }
    for (; i < size && tfm__class_at(p, text, size, i, &n) == kind; i += (size_t)n) last = i;
    TFM__COUNT_TEXT(i - at + 1);
    /* of whitespace before a word its last character is left, for that word if it is a space */
    return kind == TFM__CLASS_SPACE && i < size && last > at ? last : i;
}

static void tfm__byte_bpe_encode(tfm__lattice *b, int32_t from, int32_t to) {
    const tfm__byte_bpe *p = b->side->bpe;
    int32_t at, end, i, size;
    b->find_pair = tfm__byte_bpe_find_pair;
    b->has_ids = 1;
    for (at = from; at < to; at = end) {
        end = (int32_t)tfm__word_end(p, b->text, (size_t)to, (size_t)at);
        for (i = at; i < end; i++) {
            b->cells[i].id = p->bytes[(unsigned char)b->text[i]];
            tfm__bpe_append(b, i, 1, i == at ? -1 : i - 1);
        }
        tfm__bpe_merge(b);
        for (i = at; i < end; i += size) {
            size = b->cells[i].to.size;
            b->cells[i].to.next = i + size;
        }
    }
}

/* Takes the text as it is, with a space before it if the config says so. */
static void tfm__byte_bpe_normalize(const tfm__side *side, const char *text, int64_t i,
                                    int64_t size, tfm__normal *o) {
    if (side->bpe && side->prefix_space && text[i] != ' ') tfm__normal_put(o, " ", 1, i);
    if (!o->n_cells) tfm__normal_put(o, text + i, size - i, i);
    for (; i < size && o->n_cells; i++) tfm__normal_put(o, text + i, 1, i);
}

/* Cuts a token. Its span has no spaces at its ends, as with the package's trim_offsets. */
static int tfm__byte_bpe_next(tfm__token_cursor *c, tfm__token *token) {
    const char *text = c->text.data;
    size_t at = c->at;
    if (at >= c->text.size) return 0;
    token->id = c->cells[at].id;
    tfm__cursor_take(c, token, at, (size_t)c->cells[at].to.next);
    token->begin = (size_t)(token->text.data - text);
    token->end = token->begin + token->text.size;
    while (token->begin < token->end && text[token->begin] == ' ') token->begin++;
    while (token->begin < token->end && text[token->end - 1] == ' ') token->end--;
    TFM__COUNT_TEXT(c->at - at + 1);
    return 1;
}

/* ---- tokens to text ---- */

/* Writes the bytes for which a token's letters stand, or its spelling if one is no letter. */
static void tfm__byte_bpe_join(tfm__joined *j, int32_t id) {
    const tfm__spelling *s = tfm__join_spelling(j, id);
    int64_t k, size = s ? s->size : 0;
    uint32_t c = 0;
    int plain = 0;
    for (k = 0; k < size && !plain; plain = tfm__byte_of_letter(c) < 0)
        k += tfm__utf8_next(s->text + k, (size_t)(size - k), &c);
    for (k = 0; k < size;
         tfm__join_byte(j, plain ? (unsigned char)s->text[k - 1] : tfm__byte_of_letter(c)))
        k += plain ? 1 : tfm__utf8_next(s->text + k, (size_t)(size - k), &c);
}

/* >>added =========================================================================================
   29. ADDED TOKENS
   Added tokens are found in a text before the text is cut, as the package tokenizers does: first
   those of the text as it is, then those of the normalized text between them. The leftmost token
   wins, and of several at one place the longest. The text between two tokens is normalized and cut
   by itself. In a normalized text an added token is a mark of five bytes: 255, which no UTF-8 has,
   and the id.
   ============================================================================================== */

/* How an added token is found in a text, and whether it gives some. */
enum { TFM__ADDED_LEFT = 1, TFM__ADDED_RIGHT = 2, TFM__ADDED_SILENT = 4, TFM__ADDED_WORD = 8 };
enum { TFM__ADDED_NORMALIZED = 16, TFM__ADDED = 32, TFM__ADDED_MARK = 5 };

struct tfm__added_tokens {
    unsigned char *flags;      /* [V]: TFM__ADDED ... of added tokens */
    const unsigned char *rows; /* the file's, [n, 2] */
    int64_t n;
    tfm__vocabulary passes[2];    /* only .sorted and .n_spellings: of either pass */
    unsigned char begins[2][256]; /* a token of the pass begins with that byte */
    tfm__classes classes;
};

/* Checks a side's added tokens. A target without any shares the source's with the vocabulary. */
static tfm_status tfm__added_load(tfm__loader *l, tfm__side *side, const tfm__side *shared) {
    const tfm__vocabulary *v = &side->vocabulary;
    tfm__added_tokens *t;
    tfm_tensor rows;
    int64_t i, id, flags;
    if (!side->tokenizer->normalize) return TFM_OK;
    TFM__TRY(tfm__load_array(l, side->name, "_added", TFM_DTYPE_U32, 2, NULL, &rows));
    if (!rows.rank && shared && shared->vocabulary.text == v->text &&
        shared->vocabulary.spellings == v->spellings)
        side->added = shared->added;
    if (!rows.rank) return TFM_OK;
    if (rows.dims[1] != 2)
        return TFM__FAIL_TENSOR(l, "%s_added is %t, expected [n, 2]", side->name, &rows);
    TFM__TRY(TFM__NEW(&l->model->pool, 1, &t, l->err));
    memset(t, 0, sizeof *t);
    TFM__TRY(TFM__NEW(&l->model->pool, v->n, &t->flags, l->err));
    memset(t->flags, 0, (size_t)v->n);
    t->rows = (const unsigned char *)rows.data;
    t->n = rows.dims[0];
    for (i = 0; i < t->n; i++) {
        id = tfm__u32_at(t->rows, 2 * i);
        flags = tfm__u32_at(t->rows, 2 * i + 1);
        if (id >= v->n || flags >= TFM__ADDED || t->flags[id])
            return TFM__FAIL_TENSOR(
                l, "%s_added, row %i is %i, %i: expected another token of %d, and 0 to %d",
                side->name, i, id, flags, v->n, TFM__ADDED - 1);
        t->flags[id] = (unsigned char)(TFM__ADDED | flags);
    }
    side->added = t;
    return TFM_OK;
}

/* Sorts the added tokens by their spellings, when the vocabulary has its own. */
static tfm_status tfm__added_build(tfm__loader *l, tfm__side *side) {
    const tfm__vocabulary *v = &side->vocabulary;
    tfm__added_tokens *t = side->added;
    int64_t i;
    int pass;
    tfm__build_classes(&t->classes);
    for (pass = 0; pass < 2; pass++) {
        tfm__vocabulary *of_pass = &t->passes[pass];
        TFM__TRY(TFM__NEW(&l->model->pool, t->n, &of_pass->sorted, l->err));
        for (i = 0; i < t->n; i++) {
            int64_t id = tfm__u32_at(t->rows, 2 * i);
            tfm__spelling *s = &v->spellings[v->tokens[id]];
            if (pass != ((t->flags[id] & TFM__ADDED_NORMALIZED) != 0)) continue;
            of_pass->sorted[of_pass->n_spellings++] = s;
            t->begins[pass][(unsigned char)*s->text] = 1;
        }
        tfm__sort(of_pass->sorted, of_pass->n_spellings, tfm__compare_spellings);
    }
    return TFM_OK;
}

/* An added token, and with the whitespace that it takes first to last; id -1: all at the end. */
typedef struct tfm__added {
    size_t first, begin, end, last;
    int32_t id;
} tfm__added;

/* The character that a text has at byte at after the rules (NULL: none), or with is_before the one
   before that byte; *step: the bytes that it was made of. 0: none. */
static uint32_t tfm__char_beside(const tfm__charsmap *rules, const char *text, size_t from,
                                 size_t size, size_t at, int is_before, size_t *step) {
    uint32_t c = 0;
    for (*step = 0; is_before ? at - *step > from : at + *step < size;) {
        size_t begin = is_before ? at - *step - 1 : at + *step, end = is_before ? at - *step : size;
        const char *out;
        int64_t n;
        while (is_before && tfm__is_inside(text, size, begin)) begin--;
        end = rules ? (size_t)tfm__mapped_prefix(rules, text + begin, (int64_t)(end - begin), &out,
                                                 &n)
                    : (size_t)(n = tfm__utf8_next(out = text + begin, end - begin, &c));
        *step = is_before ? at - begin : *step + end;
        if (!n) continue; /* the rules take it away */
        begin = is_before ? (size_t)n - 1 : 0;
        while (tfm__is_inside(out, (size_t)n, begin)) begin--;
        (void)tfm__utf8_next(out + begin, (size_t)n - begin, &c);
        return c;
    }
    return 0;
}

static int tfm__is_word(const tfm__added_tokens *t, uint32_t c) {
    int kind = tfm__class_of(&t->classes, c);
    return kind >= TFM__CLASS_LETTER && kind <= TFM__CLASS_MARK;
}

/* Finds the first added token of a pass from byte from on, in bytes begin to size of a text. */
static tfm__added tfm__next_added(const tfm__side *side, int pass, const char *text, size_t begin,
                                  size_t size, size_t from) {
    const tfm__added_tokens *t = side->added;
    const tfm__charsmap *rules = pass && side->spm ? &side->spm->map : NULL;
    const char *out = NULL;
    size_t at = from, n = 0, step;
    int64_t n_out = 1;
    tfm__added a;
    a.id = -1;
    for (; t->passes[pass].n_spellings && at < size; at += step) {
        out = text + at;
        step = 1;
        if (rules)
            step = (size_t)tfm__mapped_prefix(rules, out, (int64_t)(size - at), &out, &n_out);
        if (!n_out || !t->begins[pass][(unsigned char)*out]) continue;
        a.id = tfm__longest_token(&t->passes[pass], NULL, rules, text + at, size - at, &n);
        if (a.id < 0) continue;
        if (!(t->flags[a.id] & TFM__ADDED_WORD) ||
            (!tfm__is_word(t, tfm__char_beside(rules, text, begin, size, at, 1, &step)) &&
             !tfm__is_word(t, tfm__char_beside(rules, text, begin, size, at + n, 0, &step))))
            break;
        a.id = -1; /* what is inside it is not looked for */
        step = n;
    }
    TFM__COUNT_TEXT(at - from + 1);
    a.first = a.begin = a.id < 0 ? size : at;
    a.end = a.last = a.id < 0 ? size : at + n;
    if (a.id < 0) return a;
    while (t->flags[a.id] & TFM__ADDED_LEFT &&
           tfm__is_space(tfm__char_beside(rules, text, from, size, a.first, 1, &step)))
        a.first -= step;
    while (t->flags[a.id] & TFM__ADDED_RIGHT &&
           tfm__is_space(tfm__char_beside(rules, text, from, size, a.last, 0, &step)))
        a.last += step;
    return a;
}

/* Normalizes bytes at to end of a text: what is between added tokens as the next pass does. */
static void tfm__normal_parts(const tfm__side *side, int pass, const char *text, size_t at,
                              size_t end, tfm__normal *o) {
    char mark[TFM__ADDED_MARK] = "\xFF";
    size_t begin = at;
    int64_t k;
    if (side->added && pass < 2) {
        while (at < end) {
            tfm__added a = tfm__next_added(side, pass, text, begin, end, at);
            o->before_added = a.id >= 0;
            if (a.first > at) tfm__normal_parts(side, pass + 1, text, at, a.first, o);
            for (k = 0; k < 4; k++) mark[k + 1] = (char)((uint32_t)a.id >> 8 * k);
            if (a.id >= 0) { /* the origins of its bytes tell where the token is */
                tfm__normal_put(o, mark, 1, (int64_t)a.first);
                tfm__normal_put(o, mark + 1, 3, (int64_t)a.begin);
                tfm__normal_put(o, mark + 4, 1, (int64_t)a.end);
            }
            at = a.last;
        }
    } else {
        side->tokenizer->normalize(side, text, (int64_t)at, (int64_t)end, o);
    }
}

/* Normalizes a text, whitespace alone to nothing. Returns the bytes of the result. If they are over
   the capacity, it is incomplete, and up to three bytes for each part are counted too many. */
static int64_t tfm__normal_text(const tfm__side *side, const tfm_text *text, tfm__normal *o) {
    if (text->size && !(side->keep_trailing && tfm__run(text, 0, 1) == text->size))
        tfm__normal_parts(side, 0, text->data, 0, text->size, o);
    return o->n;
}

/* Cuts the text between marks of added tokens. */
static void tfm__encode(tfm__lattice *b, int has_marks) {
    int32_t at = 0, end, i;
    for (i = 0; i < b->n_splits; i++) b->splits[i] = -1;
    for (; at < b->n; at = end + TFM__ADDED_MARK) {
        const char *mark = NULL;
        if (has_marks) mark = (const char *)memchr(b->text + at, 0xFF, (size_t)(b->n - at));
        end = mark ? (int32_t)(mark - b->text) : b->n;
        if (end > at && !b->side->has_bytes) b->side->tokenizer->encode(b, at, end);
        if (!mark) break;
        b->cells[end].id = -1;
        b->cells[end].to.next = end + TFM__ADDED_MARK;
    }
}

/* ---- a text to cells ---- */

/* Returns whether a side's texts need cells: bytes do to find added tokens. */
static int tfm__has_cells(const tfm__side *side) {
    return side->tokenizer->normalize && (!side->has_bytes || side->added);
}

/* Sets from.origin of the cells of a text that was cut. */
static void tfm__lattice_origins(tfm__token_cursor *c) {
    const tfm__sentencepiece *p = c->side->spm;
    int64_t n = (int64_t)c->text.size, body = n, i;
    tfm__normal o = {NULL, 0, 0, c->cells, n + 1, 0};
    if (p && p->dummy_prefix && p->suffix) body -= p->escape ? TFM__SPACE_PIECE : 1;
    c->cells[body].from.origin = -1;
    if (tfm__normal_text(c->side, &c->source, &o) == n)
        c->cells[body].from.origin = (int32_t)c->source.size;
    /* else a space stood there, and was taken away */
    for (i = body + 1; i <= n; i++) c->cells[i].from.origin = c->cells[body].from.origin;
}

static tfm_status tfm__lattice_alloc(tfm__lattice *b, const tfm__side *side, int64_t n,
                                     tfm_arena *scratch, tfm_error *err) {
    const tfm__sentencepiece *p = side->spm; /* NULL: byte-level BPE, or bytes */
    if (n > INT32_MAX / 2)
        return tfm__fail(err, TFM_E_OVERFLOW, "text has %i bytes after normalization, at most %i",
                         n, (int64_t)(INT32_MAX / 2));
    memset(b, 0, sizeof *b);
    b->side = side;
    b->n = (int32_t)n;
    TFM__TRY(TFM__TAKE(scratch, n, 1, &b->text, err));
    TFM__TRY(TFM__TAKE(scratch, n + 1, 1, &b->cells, err));
    if (p ? p->bpe : !side->has_bytes) TFM__TRY(TFM__TAKE(scratch, 2 * n, 1, &b->heap, err));
    if (!p || !p->bpe || !p->has_unused) return TFM_OK;
    b->n_splits = p->vocabulary.n;
    return TFM__TAKE(scratch, b->n_splits, 1, &b->splits, err);
}

/* Normalizes a text and cuts it into pieces: from cell 0 by to.next to cell n. */
static tfm_status tfm__lattice_begin(tfm__token_cursor *c, tfm_arena *scratch, tfm_error *err) {
    tfm_arena all = tfm__scratch_begin(scratch);
    tfm__normal o = {NULL, 0, 0, NULL, 0, 0};
    tfm__lattice b;
    if (!scratch->measuring && scratch->size > scratch->used) {
        /* the text comes first in the scratch: it is in its place at once */
        o.text = (char *)scratch->data + scratch->used;
        o.capacity = (int64_t)(scratch->size - scratch->used);
    }
    (void)tfm__normal_text(c->side, &c->source, &o);
    TFM__TRY(tfm__lattice_alloc(&b, c->side, o.n, &all, err));
    TFM__TRY(tfm__scratch_end(scratch, &all, err));
    if (!scratch->measuring && o.n) tfm__encode(&b, c->side->added != NULL);
    c->cells = b.cells;
    c->text = tfm_text_make(b.text, (size_t)b.n);
    return TFM_OK;
}

/* >>tokens ========================================================================================
   30. TEXTS TO IDS AND BACK
   What a model needs to read and to write texts, of which kind they may be. A text is checked to be
   UTF-8 once, so steps along it cannot fail. Relies on the sections of the kinds of text.
   ============================================================================================== */

/* ---- the texts of a model file ---- */

/* In the order of tfm_text_kind. */
static const tfm__tokenizer tfm__tokenizers[TFM_TEXT_KIND_COUNT] = {
    {tfm__vocabulary_load, NULL, NULL, tfm__words_next, NULL, NULL, tfm__words_join, 0, 0},
    {tfm__vocabulary_load, NULL, NULL, tfm__characters_next, NULL, NULL, tfm__pieces_join,
     INT32_MAX, 0},
    {tfm__vocabulary_load, NULL, tfm__pieces_begin, tfm__pieces_next, NULL, NULL, tfm__pieces_join,
     INT32_MAX, 0},
    {tfm__spm_load, tfm__spm_build_side, tfm__lattice_begin, tfm__spm_next, tfm__spm_normalize,
     tfm__spm_encode, tfm__spm_join, 1, 1},
    {tfm__bytes_load, NULL, tfm__lattice_begin, tfm__bytes_next, tfm__byte_bpe_normalize, NULL,
     tfm__bytes_join, 0, -1},
    {tfm__byte_bpe_load, tfm__byte_bpe_build, tfm__lattice_begin, tfm__byte_bpe_next,
     tfm__byte_bpe_normalize, tfm__byte_bpe_encode, tfm__byte_bpe_join, 0, 0}};

/* Loads what a kind of text needs. Tensors of another kind are an error that names the kind. */
static tfm_status tfm__load_side(tfm__loader *l, tfm__side *side, tfm_text_kind kind,
                                 const tfm__side *shared) {
    static const char *const suffixes[] = {"vocabulary", "sentencepiece", "merges", "added"};
    char name[TFM__NAME];
    size_t i;
    side->tokenizer = &tfm__tokenizers[kind];
    side->marks = side->tokenizer->marks;
    side->prefix_space = l->model->config.prefix_space;
    TFM__TRY(side->tokenizer->load(l, side, shared));
    TFM__TRY(tfm__added_load(l, side, shared));
    for (i = 0; i < sizeof suffixes / sizeof *suffixes; i++) {
        int64_t at;
        tfm__format(name, sizeof name, "%s_%s", side->name, suffixes[i]);
        at = tfm_safetensors_find(l->file, name);
        if (at >= 0 && !tfm__file_entry_at(l->file, at)->is_used)
            return TFM__FAIL_CONFIG(l->err, "'%s_text' is %s, but tensor '%s' is there", side->name,
                                    tfm_text_kind_name(kind), name);
    }
    return TFM_OK;
}

/* Maps ids to the target's pieces by spelling. Tokens that steer the decoder have no text. */
static tfm_status tfm__map_target(tfm__loader *l) {
    const tfm_config *c = &l->model->config;
    tfm__side *side = &l->model->target;
    const tfm__vocabulary *v = &side->vocabulary,
                          *pieces = side->spm ? &side->spm->vocabulary : NULL;
    int32_t i, *piece;
    TFM__TRY(TFM__NEW(&l->model->pool, c->tgt_vocab_size, &side->pieces, l->err));
    for (i = 0, piece = side->pieces; i < c->tgt_vocab_size; i++, piece++) {
        int flags = i < v->n && side->added ? side->added->flags[i] : 0;
        const tfm__spelling *s = i < v->n ? &v->spellings[v->tokens[i]] : NULL;
        if (!s || i == c->start || i == c->end || i == c->tgt_pad || i == c->forced ||
            flags & TFM__ADDED_SILENT || (side->has_bytes && !flags))
            *piece = TFM__ID_DROPPED;
        else if (flags || !pieces) *piece = TFM__ID_PLAIN;
        else if (v->spellings == pieces->spellings) *piece = i; /* pieces are the tokens */
        else *piece = tfm__find_token(pieces, s->text, s->size);
    }
    for (i = 0; i < c->n_languages; i++)
        if (c->languages[i].id < c->tgt_vocab_size)
            side->pieces[c->languages[i].id] = TFM__ID_DROPPED;
    return TFM_OK;
}

/* Loads the texts of both sides. A source without embedding has no text. */
static tfm_status tfm__load_text(tfm__loader *l) {
    tfm__side *source = &l->model->source, *target = &l->model->target;
    tfm_config *c = &l->model->config;
    source->unk = c->src_unk;
    source->start = c->src_start;
    source->end = c->src_end;
    target->unk = c->tgt_unk;
    target->start = c->start;
    target->end = c->end;
    target->clean_up = c->clean_up;
    TFM__TRY(tfm__load_side(l, source, c->src_text, NULL));
    TFM__TRY(tfm__load_side(l, target, c->tgt_text, source));
    c->has_text = tfm__has_text(source);
    if (c->has_text && !tfm__has_text(target)) return tfm__text_missing(l, target, "vocabulary");
    if (!c->has_text && tfm__has_text(target) && c->src_vocab_size)
        return tfm__text_missing(l, source, "vocabulary");
    return TFM_OK;
}

/* Builds a side's tables. */
static tfm_status tfm__build_side(tfm__loader *l, tfm__side *side, const tfm__side *shared) {
    tfm__vocabulary *v = &side->vocabulary;
    if (v->text && shared && v->text == shared->vocabulary.text) *v = shared->vocabulary;
    else if (v->text) TFM__TRY(tfm__build_vocabulary(v, &l->model->pool, l->err));
    if (side->tokenizer->build) TFM__TRY(side->tokenizer->build(l, side, shared));
    return side->added && (!shared || side->added != shared->added) ? tfm__added_build(l, side)
                                                                    : TFM_OK;
}

/* Builds the tables of both sides, when the whole file is checked. */
static tfm_status tfm__build_text(tfm__loader *l) {
    tfm_model *m = l->model;
    TFM__TRY(tfm__build_side(l, &m->source, NULL));
    TFM__TRY(tfm__build_side(l, &m->target, &m->source));
    return m->target.vocabulary.n ? tfm__map_target(l) : TFM_OK;
}

/* Finds the id of a language's code of size bytes, or fails with the three that are most alike. */
static tfm_status tfm__find_language(const tfm_config *c, const char *code, size_t size,
                                     int32_t *id, tfm_error *err) {
    const char *nearest[3] = {"", "", ""};
    char wanted[TFM__CODE];
    size_t n = size < sizeof wanted ? size : sizeof wanted - 1;
    int32_t i;
    int n_nearest = 0, alike;
    memcpy(wanted, code, n);
    wanted[n] = 0;
    for (i = 0; i < c->n_languages; i++)
        if (size == n && strcmp(wanted, c->languages[i].code) == 0) {
            *id = c->languages[i].id;
            return TFM_OK;
        }
    if (!c->n_languages)
        return tfm__fail(err, TFM_E_TOKEN, "the model has no languages, so not '%s'", wanted);
    for (alike = TFM__CODE; alike >= 0; alike--)
        for (i = 0; i < c->n_languages && n_nearest < 3; i++)
            if (strncmp(wanted, c->languages[i].code, (size_t)alike) == 0 &&
                strncmp(wanted, c->languages[i].code, (size_t)alike + 1) != 0)
                nearest[n_nearest++] = c->languages[i].code;
    return tfm__fail(err, TFM_E_TOKEN, "the model has no language '%s'; near it: %s %s %s", wanted,
                     nearest[0], nearest[1], nearest[2]);
}

TFM_DEF tfm_status tfm_language_find(const tfm_model *model, const char *code, int32_t *id,
                                     tfm_error *err) {
    if (!model || !code || !id) return tfm__fail(err, TFM_E_ARGUMENT, "model, code or id is NULL");
    return tfm__find_language(&model->config, code, strlen(code), id, err);
}

/* Steps over ">>code<<" before a text if the model's sources begin with the language to translate
   into. Without a label *id stays as it is. */
static tfm_status tfm__take_language(const tfm_config *c, tfm_text *text, int32_t *id,
                                     tfm_error *err) {
    const char *at = text->data, *end, *code;
    if (c->src_language != TFM_LANGUAGE_USE_TARGET || !text->size) return TFM_OK; /* may be NULL */
    end = at + text->size;
    at += tfm__run(text, 0, 1);
    if (end - at < 4 || memcmp(at, ">>", 2) != 0) return TFM_OK;
    for (code = at += 2; end - at >= 2 && (at[0] != '<' || at[1] != '<'); at++)
        if ((unsigned char)*at <= ' ') return TFM_OK; /* no code, but a text about arrows */
    TFM__COUNT_TEXT(at - text->data);
    if (end - at < 2) return TFM_OK;
    TFM__TRY(tfm__find_language(c, code, (size_t)(at - code), id, err));
    *text = tfm_text_make(at + 2, (size_t)(end - at - 2));
    return TFM_OK;
}

static tfm_status tfm__no_language(tfm_error *err) {
    return tfm__fail(err, TFM_E_STATE,
                     "the model knows several languages: call tfm_languages_set first");
}

/* Checks that a caller's text is not NULL, has a size that int32_t can count, and is UTF-8. */
static tfm_status tfm__check_text(const tfm_text *text, const char *what, tfm_error *err) {
    int64_t fault;
    if (!text->data && text->size)
        return tfm__fail(err, TFM_E_ARGUMENT, "%s.data is NULL, and its size is not 0", what);
    if (text->size > INT32_MAX)
        return tfm__fail(err, TFM_E_TOO_LONG, "%s has over 2147483647 bytes", what);
    fault = tfm__utf8_fault(text->data, text->size);
    if (fault >= 0) return tfm__fail(err, TFM_E_UTF8, "%s is not UTF-8 at byte %i", what, fault);
    return TFM_OK;
}

/* ---- text to tokens ---- */

/* Returns the side's kind of text. The forms with tokens are read as words, except bytes. */
static const tfm__tokenizer *tfm__tokenizer_of(const tfm__side *side, tfm_text_form form) {
    return form == TFM_TEXT_FORM_TEXT || side->has_bytes ? side->tokenizer
                                                         : &tfm__tokenizers[TFM_TEXT_KIND_WORDS];
}

/* Sets the next token and returns 1, at the end 0. */
static int tfm__cursor_next(tfm__token_cursor *c, tfm__token *token) {
    const unsigned char *mark = (const unsigned char *)c->text.data + c->at;
    if (!c->cells || c->at >= c->text.size || *mark != 0xFF) return c->kind->next(c, token);
    token->id = (int32_t)tfm__little_endian(mark + 1, 4); /* an added token */
    token->begin = c->at + 1;
    token->end = c->at + TFM__ADDED_MARK - 1;
    c->at = c->first = c->last = c->at + TFM__ADDED_MARK;
    return 1;
}

/* Makes a text ready to be cut. Scratch that pieces take is read until the last token; a measuring
   arena learns its size. config: a source's, whose label may set *language; or NULL. */
static tfm_status tfm__cursor_begin(tfm__token_cursor *c, const tfm_config *config,
                                    const tfm__side *side, tfm_text_form form, const tfm_text *text,
                                    int32_t *language, tfm_arena *scratch, tfm_error *err) {
    memset(c, 0, sizeof *c);
    c->side = side;
    c->kind = tfm__tokenizer_of(side, form);
    c->form = form;
    c->source = *text;
    if (config && form == TFM_TEXT_FORM_TEXT)
        TFM__TRY(tfm__take_language(config, &c->source, language, err));
    c->offset = text->size - c->source.size;
    c->text = c->source;
    if (!c->kind->begin ||
        (side->has_bytes && (form != TFM_TEXT_FORM_TEXT || !tfm__has_cells(side))))
        return TFM_OK;
    return c->kind->begin(c, scratch, err);
}

/* Where the ids of a text go. */
typedef struct tfm__ids {
    int32_t *ids;
    tfm_span *spans; /* NULL: not wanted */
    int32_t capacity, *count;
    int32_t language;  /* before a source; -1: none; TFM__LANGUAGE_UNSET: the text must say it */
    int32_t *left_out; /* of what capacity has no room for; NULL: that is an error */
} tfm__ids;

/* Returns whether a token at the front of a source chooses the language to translate into. */
static int tfm__is_language(const tfm_config *c, int32_t id) {
    int32_t i;
    for (i = 0; c->src_language == TFM_LANGUAGE_USE_TARGET && i < c->n_languages; i++)
        if (c->languages[i].id == id) return 1;
    return 0;
}

/* Returns where the source has byte `at` of a text with marks (pieces). */
static size_t tfm__pieces_origin(const tfm__token_cursor *c, size_t at) {
    size_t origin = 0, word = 0, n = 0;
    do {
        origin += word;
        origin += tfm__run(&c->source, origin, 1);
        n += word + TFM__SPACE_PIECE;
        word = tfm__run(&c->source, origin, 0);
    } while (word && at >= n + word);
    return origin + (at > n ? at - n : 0);
}

/* Says which token the vocabulary lacks, as the source has it, and at which byte it begins. */
static tfm_status tfm__no_token(tfm__token_cursor *c, const tfm__token *token, tfm_error *err) {
    enum { SHOWN = 60 };
    const char *name = c->side->name;
    char shown[SHOWN + 4];
    size_t begin = token->begin, end = token->end, n;
    if (c->cells) {
        tfm__lattice_origins(c);
        begin = (size_t)c->cells[begin].from.origin;
        end = (size_t)c->cells[end].from.origin;
    } else if (c->text.data != c->source.data) {
        begin = tfm__pieces_origin(c, begin);
        end = tfm__pieces_origin(c, end - 1) + 1;
    }
    if (end <= begin) end = begin + (begin < c->source.size); /* one of the pieces of a character */
    while (tfm__is_inside(c->source.data, c->source.size, begin)) begin--;
    while (tfm__is_inside(c->source.data, c->source.size, end)) end++;
    n = end - begin < (size_t)SHOWN ? end - begin : (size_t)SHOWN;
    while (n < end - begin && tfm__is_inside(c->source.data, c->source.size, begin + n)) n--;
    memcpy(shown, c->source.data + begin, n);
    memcpy(shown + n, n < end - begin ? "..." : "", n < end - begin ? 4 : 1);
    return tfm__fail(err, TFM_E_TOKEN,
                     "\"%s\" at byte %i is not in %s_vocabulary. Change the text, or set %s_unk in "
                     "the model's config: the id of unknown tokens",
                     shown, (int64_t)(c->offset + begin), name, name);
}

/* Puts a token's id, and the span that is begin to end. */
static void tfm__put_id(tfm__ids *out, int64_t n, int32_t id, size_t begin, size_t end) {
    tfm_span span = {begin, end};
    out->ids[n] = id;
    if (out->spans) out->spans[n] = span;
}

/* Turns a text into ids, a source with its language, start and end. The first pass over the tokens
   counts and checks, so a failure leaves outputs untouched. With room for ids there is a second. */
static tfm_status tfm__tokenize(const tfm_model *m, const tfm__side *side, const tfm_text *source,
                                tfm_text_form form, tfm__ids *out, tfm_arena *scratch,
                                tfm_error *err) {
    tfm__token token;
    tfm__token_cursor cursor;
    int64_t n, total;
    int32_t last = -1, capacity = out->capacity;
    const int counts = !out->ids && !out->capacity && !out->left_out;
    int is_source, end, leading;
    if (!m || !out->count || (!out->ids && out->capacity > 0))
        return tfm__fail(err, TFM_E_ARGUMENT, "model, ids or count is NULL");
    if (counts) capacity = INT32_MAX;
    is_source = side == &m->source;
    if (!tfm__has_text(side))
        return tfm__fail(err, TFM_E_NO_TEXT,
                         "the model has no %s_vocabulary: use ids, or convert it with one",
                         side->name);
    TFM__TRY(tfm__check_text(source, "text", err));
    TFM__TRY(tfm__cursor_begin(&cursor, is_source ? &m->config : NULL, side, form, source,
                               &out->language, scratch, err));
    if (scratch->measuring) return TFM_OK;
    for (n = 0; tfm__cursor_next(&cursor, &token); n++) {
        if (token.id < 0 && side->unk < 0) return tfm__no_token(&cursor, &token, err);
        if (n == 0 && form != TFM_TEXT_FORM_TEXT && tfm__is_language(&m->config, token.id))
            out->language = -1;
        last = token.id;
    }
    if (n == 0) { /* blank */
        *out->count = 0;
        if (out->left_out) *out->left_out = 0;
        return TFM_OK;
    }
    if (out->language == TFM__LANGUAGE_UNSET) return tfm__no_language(err);
    leading = (is_source && side->start >= 0) + (out->language >= 0);
    /* ByT5 adds no end token to a whole text that ends with one */
    end = is_source && side->end >= 0 &&
          !(side->has_bytes && last == side->end && n + leading <= capacity);
    total = n + end + leading;
    if (total > capacity && !out->left_out)
        return tfm__fail(err, TFM_E_TOO_LONG, "text has %i tokens, there is room for %d", total,
                         capacity);
    if (total > capacity && capacity <= end + leading)
        return tfm__fail(
            err, TFM_E_TOO_LONG,
            "text has %i tokens, there is room for %d: truncate is a number of tokens, "
            "expected %d or more, because start, language and end are %d",
            total, capacity, end + leading + 1, end + leading);
    if (out->left_out) *out->left_out = (int32_t)tfm__max(0, total - capacity);
    total = tfm__min(total, capacity);
    if (counts) {
        *out->count = (int32_t)total;
        return TFM_OK;
    }
    if (out->spans && cursor.cells) tfm__lattice_origins(&cursor);
    n = 0;
    if (is_source && side->start >= 0)
        tfm__put_id(out, n++, side->start, cursor.offset, cursor.offset);
    if (out->language >= 0) tfm__put_id(out, n++, out->language, cursor.offset, cursor.offset);
    for (cursor.at = cursor.last = 0; n < total - end && tfm__cursor_next(&cursor, &token);) {
        if (out->spans && cursor.cells) {
            token.begin = (size_t)cursor.cells[token.begin].from.origin;
            token.end = (size_t)cursor.cells[token.end].from.origin;
        }
        tfm__put_id(out, n++, token.id < 0 ? side->unk : token.id, cursor.offset + token.begin,
                    cursor.offset + token.end);
    }
    if (end) tfm__put_id(out, n, side->end, source->size, source->size);
    *out->count = (int32_t)total;
    return TFM_OK;
}

/* Turns a text into ids. Without a scratch arena the model's allocator gives the memory. */
static tfm_status tfm__tokenize_alone(const tfm_model *model, const tfm__side *side,
                                      const tfm_text *text, tfm_text_form form, tfm__ids *out,
                                      tfm_arena *scratch, tfm_error *err) {
    tfm_arena own = tfm_arena_measuring();
    void *memory = NULL;
    size_t size;
    tfm_status status;
    if (scratch) return tfm__tokenize(model, side, text, form, out, scratch, err);
    TFM__TRY(tfm__tokenize(model, side, text, form, out, &own, err));
    size = own.peak ? own.peak + TFM__ALIGN : 0;
    if (size) TFM__TRY(tfm__allocate(&model->pool.allocator, (int64_t)size, &memory, err));
    own = tfm_arena_make(memory, size);
    status = tfm__tokenize(model, side, text, form, out, &own, err);
    if (memory) model->pool.allocator.release(model->pool.allocator.user, memory);
    return status;
}

TFM_DEF tfm_status tfm_model_tokenize(const tfm_model *model, tfm_text text, tfm_text_form form,
                                      int32_t *ids, int32_t capacity, int32_t *count,
                                      tfm_arena *scratch, tfm_error *err) {
    tfm__ids out = {ids, NULL, capacity, count, -1, NULL};
    return tfm__tokenize_alone(model, model ? &model->source : NULL, &text, form, &out, scratch,
                               err);
}

TFM_DEF tfm_status tfm_model_tokenize_target(const tfm_model *model, tfm_text text,
                                             tfm_text_form form, int32_t *ids, int32_t capacity,
                                             int32_t *count, tfm_arena *scratch, tfm_error *err) {
    tfm__ids out = {ids, NULL, capacity, count, -1, NULL};
    return tfm__tokenize_alone(model, model ? &model->target : NULL, &text, form, &out, scratch,
                               err);
}

/* ---- tokens to text ---- */

/* Target ids that become a text, all in range. */
typedef struct tfm__target_ids {
    const int32_t *ids;
    int32_t n;
    tfm_text_form form;
    int runs; /* more ids will follow: what the clean-up holds is left out */
} tfm__target_ids;

/* Writes the text of ids at out, not terminated, and returns its size. out may be NULL. */
static size_t tfm__join(const tfm__side *side, const tfm__target_ids *target, char *out) {
    const tfm__tokenizer *kind = tfm__tokenizer_of(side, target->form);
    tfm__joined j;
    int32_t i;
    int pass, k;
    memset(&j, 0, sizeof j);
    j.side = side;
    j.form = target->form;
    j.out = out;
    j.clean_up = target->form == TFM_TEXT_FORM_TEXT && side->clean_up;
    if (target->form == TFM_TEXT_FORM_TEXT && side->spm && side->spm->unmap.units)
        j.rules = &side->spm->unmap;
    for (i = 0; i < target->n; i++) kind->join(&j, target->ids[i]);
    TFM__COUNT_TEXT(target->n);
    tfm__join_broken(&j);
    if (j.rules) tfm__join_held(&j, 0);
    for (pass = 0; pass < 3 && !target->runs; pass++)
        for (k = 0; k < j.n_clean[pass]; k++) tfm__join_clean(&j, pass + 1, j.clean[pass][k]);
    return j.size;
}

/* Writes a terminated text. The size is known before the first byte is written. */
static tfm_status tfm__join_text_of(const tfm__side *side, const tfm__target_ids *target,
                                    char *text, size_t capacity, size_t *size, tfm_error *err) {
    size_t needed;
    if (!tfm__has_text(side))
        return tfm__fail(err, TFM_E_NO_TEXT,
                         "the model has no %s_vocabulary: use ids, or convert it with one",
                         side->name);
    needed = tfm__join(side, target, NULL);
    if (text && needed >= capacity)
        return tfm__fail(err, TFM_E_TOO_SMALL, "the text takes %i bytes, the buffer has %i",
                         (int64_t)needed + 1, (int64_t)capacity);
    if (text) text[tfm__join(side, target, text)] = 0;
    *size = needed;
    return TFM_OK;
}

TFM_DEF tfm_status tfm_model_detokenize(const tfm_model *model, const int32_t *ids, int32_t count,
                                        tfm_text_form form, char *text, size_t capacity,
                                        size_t *size, tfm_error *err) {
    tfm__target_ids target = {ids, count, form, 0};
    int32_t i;
    if (!model || (!ids && count > 0) || !size || (!text && capacity))
        return tfm__fail(err, TFM_E_ARGUMENT, "model, ids, text or size is NULL");
    for (i = 0; i < count; i++)
        if (ids[i] < 0 || ids[i] >= model->config.tgt_vocab_size)
            return tfm__fail(err, TFM_E_TOKEN, "position %i: id %i, the vocabulary has %i tokens",
                             (int64_t)i, (int64_t)ids[i], (int64_t)model->config.tgt_vocab_size);
    return tfm__join_text_of(&model->target, &target, text, capacity, size, err);
}

#else /* TRANSFORMER_NO_TEXT: the tensors of texts may stand in the file */

static tfm_status tfm__build_text(tfm__loader *l) {
    (void)l;
    return TFM_OK;
}

static tfm_status tfm__load_text(tfm__loader *l) {
    static const char *const names[] = {"vocabulary",    "vocabulary_sorted",
                                        "sentencepiece", "sentencepiece_sorted",
                                        "merges",        "added"};
    char name[TFM__NAME];
    size_t i;
    for (i = 0; i < 2 * sizeof names / sizeof *names; i++) {
        tfm__format(name, sizeof name, "_%s", names[i / 2]);
        (void)tfm__load_claim(l, i % 2 ? "tgt" : "src", name);
    }
    return TFM_OK;
}

#endif /* TRANSFORMER_NO_TEXT */

/* >>weights =======================================================================================
   31. FROM NAMED TENSORS TO A MODEL
   The loader asks for every tensor by name, and checks its shape against the sizes known so far. A
   tensor for which it never asked is an error: a misspelt name, or a part of a model that this
   library does not compute. Relies on >>model and >>tokens.
   ============================================================================================== */

enum { TFM__REQUIRED = 1, TFM__INT8_TOO = 2 };

/* Checks the shape of the panels [panels, groups, 16, k_group] of a matrix [rows, columns]. */
static tfm_status tfm__load_check_panels(const tfm__loader *l, const tfm_tensor *t, int64_t rows,
                                         int64_t columns) {
    int64_t k_group = t->dims[3], dims[4] = {tfm__packed_panels(rows), 0, TFM__PANEL, 0};
    /* floats may have another k_group and are rearranged; int8 cannot, because of its scales */
    if (t->dtype == TFM_DTYPE_I8 || k_group < 1 || k_group > 64 || k_group & (k_group - 1))
        k_group = tfm__types[tfm__type_of_dtype(t->dtype)].k_group;
    dims[1] = tfm__blocks(columns, k_group);
    dims[3] = k_group;
    return tfm__load_check(l, t, t->dtype, rows && columns ? 4 : 2, dims);
}

/* Finds the weight that is named prefix and suffix, of shape [*rows, *columns], or [*rows] if
   columns is NULL. A size of 0 takes any size, and becomes that. In a packed file a matrix may be
   panels, of rank 4. Without TFM__REQUIRED the tensor may be missing: out->data is NULL then. */
static tfm_status tfm__load_weight(tfm__loader *l, const char *prefix, const char *suffix,
                                   int flags, int32_t *rows, int32_t *columns, tfm_tensor *out) {
    const tfm__file_entry *e = tfm__load_claim(l, prefix, suffix);
    int int8_too = flags & TFM__INT8_TOO, rank = columns ? 2 : 1, r;
    int64_t dims[2] = {*rows ? *rows : -1, columns && *columns ? *columns : -1};
    tfm_tensor t;
    memset(out, 0, sizeof *out);
    if (!e) return flags & TFM__REQUIRED ? tfm__load_missing(l) : TFM_OK;
    t = tfm__file_tensor(l->file, e);
    if (tfm__dtypes[t.dtype].kind != 'w' && !(int8_too && t.dtype == TFM_DTYPE_I8))
        return TFM__FAIL_TENSOR(l, "tensor '%s' is %s, expected F32, F16%s BF16%s", l->name,
                                tfm_dtype_name(t.dtype), int8_too ? "," : " or",
                                int8_too ? " or I8" : "");
    if (int8_too && l->packed && t.rank == 4) {
        *out = t;
        return tfm__load_check_panels(l, &t, *rows, *columns);
    }
    TFM__TRY(tfm__load_check(l, &t, t.dtype, rank, dims));
    for (r = 0; r < rank; r++)
        if (t.dims[r] < 1 || t.dims[r] > INT32_MAX)
            return TFM__FAIL_TENSOR(l, "tensor '%s' is %t: a size out of range", l->name, &t);
    *rows = (int32_t)t.dims[0];
    if (columns) *columns = (int32_t)t.dims[1];
    *out = t;
    return TFM_OK;
}

/* Sets *out to elements begin to begin + n - 1 of t as floats. These are the bytes of the file if
   they are aligned floats, else a copy in the pool. */
static tfm_status tfm__load_floats(tfm__loader *l, const tfm_tensor *t, int64_t begin, int64_t n,
                                   float **out) {
    unsigned char *from = (unsigned char *)t->data + begin * tfm__dtypes[t->dtype].bits / 8;
    *out = (float *)(void *)from;
    if (tfm__are_floats(from, t->dtype)) return TFM_OK;
    TFM__TRY(TFM__NEW(&l->model->pool, n, out, l->err));
    tfm__widen(*out, from, t->dtype, n);
    return TFM_OK;
}

/* Loads a tensor of floats, of a norm or of positions. Arguments are those of tfm__load_weight. */
static tfm_status tfm__load_float_tensor(tfm__loader *l, const char *prefix, const char *suffix,
                                         int flags, int32_t *rows, int32_t *columns,
                                         tfm_tensor *out) {
    float *data = NULL;
    TFM__TRY(tfm__load_weight(l, prefix, suffix, flags, rows, columns, out));
    if (out->data) TFM__TRY(tfm__load_floats(l, out, 0, out->dims[0] * out->strides[0], &data));
    out->data = data, out->dtype = TFM_DTYPE_F32;
    return TFM_OK;
}

/* A matrix as it is stored in the file. */
typedef struct tfm__load_found {
    tfm__matrix w;     /* its scales are not set; no data: the file has no such matrix */
    tfm_tensor scales; /* of int8 */
    tfm_tensor sums;   /* of int8 in panels, NAME_sums: what a zero point of 128 adds */
} tfm__load_found;

/* Finds a matrix and its scales. Arguments are those of tfm__load_weight. */
static tfm_status tfm__load_matrix(tfm__loader *l, const char *prefix, const char *suffix,
                                   int flags, int32_t *rows, int32_t *columns,
                                   tfm__load_found *found) {
    char name[TFM__NAME];
    int32_t n_scales;
    tfm_tensor t;
    memset(found, 0, sizeof *found);
    TFM__TRY(tfm__load_weight(l, prefix, suffix, flags | TFM__INT8_TOO, rows, columns, &t));
    if (!t.data) return TFM_OK;
    found->w.dtype = t.dtype;
    found->w.data = (unsigned char *)t.data;
    found->w.k_group = t.rank == 4 ? (int)t.dims[3] : 0;
    found->w.rows = n_scales = *rows;
    found->w.columns = *columns;
    if (t.dtype != TFM_DTYPE_I8) return TFM_OK;
    if (found->w.k_group) {
        int64_t dims[2] = {tfm__packed_blocks(*columns), tfm__packed_padded_rows(*rows)};
        n_scales = (int32_t)tfm__min(INT32_MAX, dims[1]);
        tfm__format(name, sizeof name, "%s_sums", suffix);
        TFM__TRY(tfm__load_array(l, prefix, name, TFM_DTYPE_I32, 2, dims, &found->sums));
        if (!found->sums.data) return tfm__load_missing(l);
    }
    tfm__format(name, sizeof name, "%s_scale", suffix);
    return tfm__load_weight(l, prefix, name, TFM__REQUIRED, &n_scales, NULL, &found->scales);
}

/* Reads NAME_input_factor [1], which a matrix may have that is multiplied as int8. */
static tfm_status tfm__load_input_factor(tfm__loader *l, const char *prefix, const char *suffix,
                                         tfm__matrix *w) {
    char name[TFM__NAME];
    int32_t one = 1;
    tfm_tensor t;
    float *factor;
    tfm__format(name, sizeof name, "%s_input_factor", suffix);
    TFM__TRY(tfm__load_weight(l, prefix, name, 0, &one, NULL, &t));
    if (!t.data) return TFM_OK;
    TFM__TRY(tfm__load_floats(l, &t, 0, 1, &factor));
    w->input_factor = *factor;
    if (*factor >= 1e-37f && *factor <= 1e37f) return TFM_OK; /* its reciprocal is finite, too */
    return TFM__FAIL_TENSOR(l, "tensor '%s' is not a number from 1e-37 to 1e37", l->name);
}

/* Sets *w to rows begin to begin + n - 1 of a matrix, or to all of its panels. */
static tfm_status tfm__load_rows(tfm__loader *l, const tfm__load_found *found, int64_t begin,
                                 int64_t n, tfm__matrix *w) {
    tfm_tensor sums = found->sums;
    float *bits;
    *w = found->w;
    w->rows = n;
    w->data += begin * w->columns * tfm__dtypes[w->dtype].bits / 8;
    if (!found->scales.data) return TFM_OK;
    if (!w->k_group) return tfm__load_floats(l, &found->scales, begin, n, &w->scales);
    sums.dtype = TFM_DTYPE_F32; /* reinterprets the 32-bit integers; their bits stay unchanged */
    TFM__TRY(tfm__load_floats(l, &sums, 0, sums.dims[0] * sums.dims[1], &bits));
    w->block_sums = (int32_t *)(void *)bits;
    return tfm__load_floats(l, &found->scales, 0, found->scales.dims[0], &w->scales);
}

/* Makes a linear map of these rows, and adds it to the list of matrices that are packed after all
   checks. bias is that of the whole matrix, or has no data. */
static tfm_status tfm__load_linear_rows(tfm__loader *l, const tfm__load_found *found,
                                        const tfm_tensor *bias, int64_t begin, int64_t n,
                                        tfm__linear *linear) {
    float *data = NULL;
    TFM__TRY(tfm__load_rows(l, found, begin, n, &linear->w));
    if (bias->data) TFM__TRY(tfm__load_floats(l, bias, begin, n, &data));
    linear->bias = data;
    linear->next = l->model->linears;
    l->model->linears = linear;
    return TFM_OK;
}

/* Loads NAME.weight [out, in] and NAME.bias [out]. NAME is prefix and suffix. */
static tfm_status tfm__load_linear(tfm__loader *l, const char *prefix, const char *suffix,
                                   int flags, int32_t *out, int32_t *in, tfm__linear *w) {
    char name[TFM__NAME];
    tfm__load_found found;
    tfm_tensor bias;
    tfm__format(name, sizeof name, "%s%s", prefix, suffix);
    TFM__TRY(tfm__load_matrix(l, name, ".weight", flags, out, in, &found));
    /* a bias without its weight is reported as a tensor that is not part of a model */
    if (!found.w.data) return TFM_OK;
    TFM__TRY(tfm__load_input_factor(l, name, ".weight", &found.w));
    TFM__TRY(tfm__load_weight(l, name, ".bias", 0, out, NULL, &bias));
    return tfm__load_linear_rows(l, &found, &bias, 0, found.w.rows, w);
}

/* Loads NAME.weight and NAME.bias, either of which may be missing. */
static tfm_status tfm__load_norm(tfm__loader *l, const char *prefix, const char *suffix,
                                 int32_t *columns, tfm_norm_weights *w) {
    tfm_config *c = &l->model->config;
    char name[TFM__NAME];
    w->kind = c->norm_kind;
    w->eps = c->layer_norm_eps;
    tfm__format(name, sizeof name, "%s%s", prefix, suffix);
    TFM__TRY(tfm__load_float_tensor(l, name, ".weight", 0, columns, NULL, &w->weight));
    return tfm__load_float_tensor(l, name, ".bias", 0, columns, NULL, &w->bias);
}

/* Sizes of an attention while its tensors are loaded. 0: not known yet, and any size fits. */
typedef struct tfm__head_sizes {
    int32_t D;      /* columns of the stream, which are known */
    int32_t H, G;   /* heads of queries, which are known, and of keys and values */
    int32_t HK, HW; /* columns of all queries, and of all contexts */
} tfm__head_sizes;

static int32_t tfm__times(int32_t a, int32_t b) {
    return (int32_t)tfm__min(INT32_MAX, (int64_t)a * b);
}

/* Divides the rows of NAME.in_proj_weight, which was found, into those of query, key and value.
   Values may have a width of their own. */
static tfm_status tfm__load_in_proj(tfm__loader *l, const char *name, tfm__load_found *found,
                                    tfm__head_sizes *z, tfm__projections *a) {
    int32_t rows = (int32_t)found->w.rows;
    tfm_tensor bias;
    z->G = z->H;
    if (!z->HW) z->HW = rows / 3;
    if (!z->HK) z->HK = (rows - z->HW) / 2;
    if (z->HK < 1 || rows != 2 * (int64_t)z->HK + z->HW)
        return TFM__FAIL_TENSOR(
            l, "'%s.in_proj_weight' has %d rows, not %d of query, %d of key, %d of value", name,
            rows, z->HK, z->HK, z->HW);
    TFM__TRY(tfm__load_input_factor(l, name, ".in_proj_weight", &found->w));
    TFM__TRY(tfm__load_weight(l, name, ".in_proj_bias", 0, &rows, NULL, &bias));
    TFM__TRY(tfm__load_linear_rows(l, found, &bias, 0, z->HK, &a->query));
    TFM__TRY(tfm__load_linear_rows(l, found, &bias, z->HK, z->HK, &a->key));
    return tfm__load_linear_rows(l, found, &bias, 2 * (int64_t)z->HK, z->HW, &a->value);
}

/* Loads NAME.q_proj, k_proj and v_proj. Keys tell how many heads keys and values have. */
static tfm_status tfm__load_q_k_v_proj(tfm__loader *l, const char *name, int32_t *memory,
                                       tfm__head_sizes *z, tfm__projections *a) {
    int32_t K, GK, GW;
    TFM__TRY(tfm__load_linear(l, name, ".q_proj", TFM__REQUIRED, &z->HK, &z->D, &a->query));
    K = (int32_t)tfm__max(1, z->HK / z->H);
    GK = tfm__times(z->G, K);
    TFM__TRY(tfm__load_linear(l, name, ".k_proj", TFM__REQUIRED, &GK, memory, &a->key));
    if (!z->G && GK % K == 0) z->G = GK / K;
    if (z->HK % z->H || z->G < 1 || z->H % z->G)
        return TFM__FAIL_TENSOR(
            l,
            "'%s' projects to %d columns of queries and %d of keys, which do not divide into "
            "%d heads, or for keys into groups of them",
            name, z->HK, GK, z->H);
    GW = tfm__times(z->G, l->model->config.d_value);
    if (!GW && a->has_out) GW = z->HW / (z->H / z->G);
    TFM__TRY(tfm__load_linear(l, name, ".v_proj", TFM__REQUIRED, &GW, memory, &a->value));
    if (!z->HW) z->HW = tfm__times(GW, z->H / z->G);
    return TFM_OK;
}

/* Loads NAME.out_proj, NAME.in_proj_weight or NAME.{q,k,v}_proj, and the norms of heads. The first
   attention of a model decides how wide heads are. *memory is the width of the input of keys and
   values, *n_kv how many heads these have. 0 takes any. */
static tfm_status tfm__load_attention(tfm__loader *l, const char *prefix, const char *suffix,
                                      int32_t *memory, int32_t *n_kv, tfm__projections *a) {
    tfm_config *c = &l->model->config;
    char name[TFM__NAME];
    tfm__load_found all;
    tfm__head_sizes z;
    int32_t rows = 0;
    z.D = c->d_model, z.H = c->n_heads, z.G = *n_kv || !l->packed ? *n_kv : z.H;
    z.HK = tfm__times(z.H, c->d_key), z.HW = tfm__times(z.H, c->d_value);
    a->n_heads = z.H;
    a->scale = c->attention_scale;
    a->cap = c->attention_cap;
    tfm__format(name, sizeof name, "%s%s", prefix, suffix);
    TFM__TRY(tfm__load_linear(l, name, ".out_proj", 0, &z.D, &z.HW, &a->out));
    a->has_out = a->out.w.data != NULL;
    memset(&all, 0, sizeof all);
    if (!*memory || *memory == z.D)
        TFM__TRY(tfm__load_matrix(l, name, ".in_proj_weight", 0, &rows, &z.D, &all));
    if (all.w.data) {
        *memory = z.D;
        TFM__TRY(tfm__load_in_proj(l, name, &all, &z, a));
    } else TFM__TRY(tfm__load_q_k_v_proj(l, name, memory, &z, a));
    *n_kv = a->n_kv = z.G;
    /* without an output projection the contexts themselves are added to the stream */
    if (!a->has_out && z.HW != z.D)
        return TFM__FAIL_TENSOR(
            l, "'%s.out_proj.weight' is missing, and values have %d columns, not %d", name, z.HW,
            z.D);
    if (z.HK % z.H || z.HW % z.H)
        return TFM__FAIL_TENSOR(
            l, "'%s' projects to %d and %d columns, which do not divide into %d heads", name, z.HK,
            z.HW, z.H);
    a->K = c->d_key = z.HK / z.H;
    a->W = c->d_value = z.HW / z.H;
    TFM__TRY(tfm__load_norm(l, name, ".q_norm", &c->d_key, &a->query_norm));
    return tfm__load_norm(l, name, ".k_norm", &c->d_key, &a->key_norm);
}

/* Loads the frequencies of rotary positions of a layer or of a stack for heads of K columns, if
   they are there. Layers with equal ones share the columns of one table. */
static tfm_status tfm__load_rotary(tfm__loader *l, const char *prefix, int32_t K, tfm__rotary *r) {
    tfm_model *m = l->model;
    const tfm__rotary *same;
    int32_t n = 0;
    tfm_tensor t;
    TFM__TRY(tfm__load_float_tensor(l, prefix, ".rotary.frequencies", 0, &n, NULL, &t));
    if (!t.data) return TFM_OK;
    r->frequencies = (const float *)t.data, r->n = n, r->interleaved = m->config.rotary_layout;
    for (same = m->rotaries; same; same = same->next)
        if (same->n == n && memcmp(same->frequencies, t.data, (size_t)n * sizeof(float)) == 0)
            break;
    r->first = same ? same->first : m->rotary_columns;
    if (!same) m->rotary_columns += 2 * r->n, r->next = m->rotaries, m->rotaries = r;
    m->config.d_rotary = (int32_t)tfm__max(m->config.d_rotary, 2 * r->n);
    return tfm__rotary_check(r, l->name, K, TFM_E_TENSOR, l->err);
}

/* Loads the table of relative positions of a layer, or of a stack for all of its layers. */
static tfm_status tfm__load_relative(tfm__loader *l, const char *prefix, int causal,
                                     int64_t first_head, tfm__relative *r) {
    tfm_config *c = &l->model->config;
    char name[TFM__NAME];
    tfm_tensor t;
    tfm__format(name, sizeof name, "%s.relative_positions", prefix);
    TFM__TRY(tfm__load_float_tensor(l, name, ".weight", 0, &c->relative_buckets, &c->n_heads, &t));
    if (!t.data) return TFM_OK;
    r->stride = c->n_heads;
    r->buckets = c->relative_buckets;
    r->max_distance = c->relative_max_distance;
    r->causal = causal;
    r->first_head = first_head;
    r->table = (const float *)t.data;
    return tfm__relative_check(r, name, TFM_E_TENSOR, l->err);
}

/* Loads the layer that is named prefix: "encoder.layers.3" or "decoder.layers.3". Only layers of
   decoders have cross-attention. A *d_ff of 0 takes any width and stores it. */
static tfm_status tfm__load_layer(tfm__loader *l, const char *prefix, int has_cross, int32_t *d_ff,
                                  tfm__stack *stack, tfm__layer *layer) {
    enum { NEED = TFM__REQUIRED };
    const char *const stack_name = has_cross ? "decoder" : "encoder";
    char self[TFM__NAME], ssru[TFM__NAME], name[32];
    tfm_config *c = &l->model->config;
    int32_t *n_kv = has_cross ? &c->n_kv_heads_decoder : &c->n_kv_heads, part, number = 0, i;
    const int has_own_cross = has_cross && !c->cross_attention;
    tfm__ffn *ffn = &layer->ffn;
    tfm__relative *relative = &layer->self.relative;
    int32_t *D = &c->d_model;
    tfm__format(self, sizeof self, "%s.self_attn.", prefix);
    tfm__format(ssru, sizeof ssru, "%s.ssru", prefix);
    layer->order = c->norm_order;
    if (has_cross && tfm__file_has_prefix(l->file, ssru)) {
        if (tfm__file_has_prefix(l->file, self))
            return TFM__FAIL_TENSOR(l, "'%s' has both self_attn and ssru", prefix);
        TFM__TRY(tfm__load_linear(l, prefix, ".ssru", NEED, D, D, &layer->ssru.input));
        TFM__TRY(tfm__load_linear(l, prefix, ".ssru_gate", NEED, D, D, &layer->ssru.gate));
        c->n_ssru_layers++;
    } else {
        TFM__TRY(tfm__load_attention(l, prefix, ".self_attn", D, n_kv, &layer->self));
        self[strlen(self) - 1] = 0; /* without the dot */
        TFM__TRY(tfm__load_relative(l, self, has_cross, stack->relative_heads, relative));
        if (relative->buckets) stack->relative_heads += layer->self.n_heads;
        for (i = 0; i < 2 && !layer->self.rotary.frequencies; i++)
            TFM__TRY(tfm__load_rotary(l, i ? stack_name : self, c->d_key, &layer->self.rotary));
    }
    ffn->activation = has_cross ? c->decoder_activation : c->activation;
    TFM__TRY(tfm__load_linear(l, prefix, ".linear1", NEED, d_ff, D, &ffn->linear1));
    TFM__TRY(tfm__load_linear(l, prefix, ".linear1_gate", 0, d_ff, D, &ffn->gate));
    TFM__TRY(tfm__load_linear(l, prefix, ".linear2", NEED, D, d_ff, &ffn->linear2));
    if (ffn->gate.w.rows) c->has_gate = 1;
    for (part = TFM__SELF; part <= TFM__FFN; part++) {
        if (part == TFM__CROSS && !has_own_cross) continue;
        tfm__format(name, sizeof name, ".norm%d", ++number);
        TFM__TRY(tfm__load_norm(l, prefix, name, D, &layer->norms[part]));
        tfm__format(name, sizeof name, ".norm%d_out", number);
        TFM__TRY(tfm__load_norm(l, prefix, name, D, &layer->out_norms[part]));
    }
    if (has_own_cross)
        return tfm__load_attention(l, prefix, ".multihead_attn", &c->d_memory, n_kv, &layer->cross);
    layer->self.is_merged = has_cross;
    if (has_cross && (tfm__is_ssru(layer) || c->d_memory != *D))
        return TFM__FAIL_TENSOR(
            l, "'%s': merged attention needs self_attn, and memory of %d columns", prefix, *D);
    return TFM_OK;
}

/* Loads the layers of "encoder" or "decoder" and the norm after the last of them. Memory is
   allocated for one layer at a time, so a file that is refused took memory in proportion. */
static tfm_status tfm__load_stack(tfm__loader *l, const char *name, int has_cross, int32_t *n,
                                  int32_t *d_ff, tfm__stack *stack) {
    char prefix[TFM__NAME];
    tfm__layer *layer;
    int32_t i;
    /* a layer with at least one tensor is one: a missing tensor is then reported by name */
    *n = 0;
    do tfm__format(prefix, sizeof prefix, "%s.layers.%d.", name, *n);
    while (tfm__file_has_prefix(l->file, prefix) && ++*n);
    stack->n = *n;
    if (!*n) return TFM__FAIL_TENSOR(l, "tensor '%s.layers.0.linear1.weight' is missing", name);
    TFM__TRY(TFM__NEW(&l->model->pool, *n, &stack->layers, l->err));
    TFM__TRY(tfm__load_relative(l, name, has_cross, 0, &stack->relative));
    if (stack->relative.buckets) stack->relative_heads = l->model->config.n_heads;
    for (i = 0; i < *n; i++) {
        TFM__TRY(TFM__NEW(&l->model->pool, 1, &layer, l->err));
        memset(layer, 0, sizeof *layer);
        stack->layers[i] = layer;
        tfm__format(prefix, sizeof prefix, "%s.layers.%d", name, i);
        TFM__TRY(tfm__load_layer(l, prefix, has_cross, d_ff, stack, layer));
        if (!layer->self.relative.buckets) layer->self.relative = stack->relative;
    }
    return tfm__load_norm(l, name, ".norm", &l->model->config.d_model, &stack->norm);
}

/* Loads learned positions: a table for each side, or the source's for both. A source whose input is
   embeddings instead of ids may have none. */
static tfm_status tfm__load_positions(tfm__loader *l, int is_ids, int has_encoder) {
    tfm_model *m = l->model;
    tfm_config *c = &m->config;
    int32_t most[2] = {0, 0};
    int i;
    if (c->positions != TFM_POSITION_KIND_LEARNED) return TFM_OK;
    for (i = has_encoder ? 0 : 1; i < 2; i++) {
        const char *name = i ? "tgt_positions" : "src_positions";
        tfm_tensor *table = i ? &m->target.positions : &m->source.positions;
        int is_needed = i ? !m->source.positions.data : is_ids;
        int32_t n = 0;
        TFM__TRY(tfm__load_float_tensor(l, name, ".weight", is_needed ? TFM__REQUIRED : 0, &n,
                                        &c->d_model, table));
        most[i] = table->data ? n - c->position_offset : most[0];
        if (table->data && most[i] < 1)
            return TFM__FAIL_TENSOR(l, "tensor '%s.weight' is %t, but position_offset is %d", name,
                                    table, c->position_offset);
    }
    c->max_source_positions = most[0], c->max_target_positions = most[1];
    c->max_positions = most[0] ? (int32_t)tfm__min(most[0], most[1]) : most[1];
    return TFM_OK;
}

/* Loads what is outside of stacks. Its shapes say d_model and the sizes of the vocabularies. */
static tfm_status tfm__load_embeddings(tfm__loader *l) {
    tfm_model *m = l->model;
    tfm_config *c = &m->config;
    tfm__load_found source, target;
    tfm_tensor bias;
    int shared, tied = tfm_safetensors_find(l->file, "generator.weight") < 0;
    int is_ids = tfm_safetensors_find(l->file, "src_embedding.weight") >= 0;
    int has_own = tfm_safetensors_find(l->file, "tgt_embedding.weight") >= 0;
    int has_encoder = is_ids || tfm__file_has_prefix(l->file, "encoder.");
    TFM__TRY(tfm__load_matrix(l, "src_embedding", ".weight", has_own ? 0 : TFM__REQUIRED,
                              &c->src_vocab_size, &c->d_model, &source));
    TFM__TRY(tfm__load_matrix(l, "tgt_embedding", ".weight", 0, &c->tgt_vocab_size, &c->d_model,
                              &target));
    shared = !target.w.data; /* by both sides */
    if (shared) target = source;
    c->src_vocab_size = (int32_t)source.w.rows;
    c->tgt_vocab_size = (int32_t)target.w.rows;
    TFM__TRY(tfm__load_positions(l, is_ids, has_encoder));
    if (l->packed && !c->d_input) c->d_input = c->d_model;
    if (has_encoder) {
        TFM__TRY(
            tfm__load_linear(l, "src_projection", "", 0, &c->d_model, &c->d_input, &m->projection));
        c->d_memory = c->d_model;
        TFM__TRY(tfm__load_norm(l, "src_embedding_norm", "", &c->d_model, &m->source.norm));
    } else if (l->packed && !c->d_memory) {
        c->d_memory = c->d_model;
    }
    if (!m->projection.w.rows) c->d_input = has_encoder ? c->d_model : 0;
    TFM__TRY(tfm__load_norm(l, "tgt_embedding_norm", "", &c->d_model, &m->target.norm));
    m->target.zero_start = c->start_embedding_zero;
    /* a tied generator's matrix is packed, and embeddings are read from its panels */
    if (tied) {
        TFM__TRY(tfm__load_input_factor(l, "generator", ".weight", &target.w));
        TFM__TRY(tfm__load_weight(l, "generator", ".bias", 0, &c->tgt_vocab_size, NULL, &bias));
        TFM__TRY(tfm__load_linear_rows(l, &target, &bias, 0, c->tgt_vocab_size, &m->generator));
    } else {
        TFM__TRY(tfm__load_linear(l, "generator", "", TFM__REQUIRED, &c->tgt_vocab_size,
                                  &c->d_model, &m->generator));
        TFM__TRY(tfm__load_rows(l, &target, 0, c->tgt_vocab_size, &m->embeddings[1]));
    }
    m->target.embedding = tied ? &m->generator.w : &m->embeddings[1];
    m->source.embedding = shared ? m->target.embedding : &m->embeddings[0];
    return shared || !is_ids ? TFM_OK
                             : tfm__load_rows(l, &source, 0, c->src_vocab_size, &m->embeddings[0]);
}

/* Loads shortlist.offsets and shortlist.ids, which are used in place. */
static tfm_status tfm__load_lexicon(tfm__loader *l) {
    static const char *const names[] = {"shortlist.offsets", "shortlist.ids"};
    tfm_config *c = &l->model->config;
    const unsigned char *data[2];
    tfm_tensor t;
    int64_t n[2], i, k, last = 0;
    n[0] = c->src_vocab_size + (int64_t)1;
    for (k = 0; k < 2; k++) {
        TFM__TRY(tfm__load_array(l, names[k], "", TFM_DTYPE_U32, 1, k ? NULL : n, &t));
        data[k] = (const unsigned char *)t.data, n[k] = t.dims[0];
    }
    c->has_shortlist = data[0] || data[1];
    if (c->shortlist_first > (c->has_shortlist ? c->tgt_vocab_size : 0))
        return TFM__FAIL_CONFIG(l->err, "'shortlist_first' is %d, %s", c->shortlist_first,
                                c->has_shortlist ? "more than the target vocabulary has tokens"
                                                 : "but there is no tensor 'shortlist.ids'");
    if (!c->has_shortlist) return TFM_OK;
    k = data[0] != NULL;
    if (!data[k]) return TFM__FAIL_TENSOR(l, "tensor '%s' is missing", names[k]);
    for (k = 0; k < 2; k++)
        for (i = 0; i < n[k]; i++) {
            int64_t value = tfm__u32_at(data[k], i);
            int64_t least = k ? 0 : i + 1 < n[0] ? last : n[1];
            int64_t most = k ? c->tgt_vocab_size - 1 : i ? n[1] : 0;
            if (value < least || value > most)
                return TFM__FAIL_TENSOR(l, "tensor '%s': element %i is %i, expected %i to %i",
                                        names[k], i, value, least, most);
            last = value;
        }
    l->model->lexicon.offsets = data[0], l->model->lexicon.ids = data[1];
    return TFM_OK;
}

/* Checks one field of the struct at base by its rule. */
static tfm_status tfm__config_check_field(const tfm__config_field *f, const void *base,
                                          const tfm_config *actual, tfm_error *err) {
    const void *at = (const char *)base + f->at, *count = (const char *)base + f->count;
    int32_t V = f->rule == TFM__RULE_SRC_ID ? actual->src_vocab_size : actual->tgt_vocab_size, size;
    const int32_t *ids = &size;
    int64_t n = 0; /* ids */
    if (f->kind == TFM__FIELD_IDS) {
        ids = *(const int32_t *const *)at;
        n = *(const int32_t *)count;
    } else if (f->kind == TFM__FIELD_SEQUENCES) {
        const tfm_ids *lists = *(const tfm_ids *const *)at;
        int32_t i;
        for (i = 0; i < *(const int32_t *)count; i++) n += lists[i].n;
        if (n) ids = lists->data; /* the lists are adjacent */
    } else if (f->kind == TFM__FIELD_INT) {
        size = (int32_t)tfm__config_get(f, base);
        n = f->rule == TFM__RULE_SRC_ID || f->rule == TFM__RULE_TGT_ID;
        if (f->rule >= TFM__RULE_SHAPE && size >= 0 && size != (int32_t)tfm__config_get(f, actual))
            return TFM__FAIL_CONFIG(err, "'%s' is %d, the tensors say %d", f->name, size,
                                    (int32_t)tfm__config_get(f, actual));
    }
    for (; n > 0; n--, ids++)
        if (*ids >= V)
            return TFM__FAIL_CONFIG(err, "'%s' %s %d, the vocabulary has %d tokens", f->name,
                                    ids == &size ? "is" : "has", *ids, V);
    return TFM_OK;
}

/* Checks the windows of a stack, and gives them to its layers. */
static tfm_status tfm__config_check_windows(tfm__loader *l, const char *name, const int32_t *w,
                                            int32_t n, const tfm__stack *stack) {
    for (; n > 0; n--, w += 3) {
        tfm__projections *self;
        self = w[0] < stack->n ? &stack->layers[w[0]]->self : NULL;
        if (!self || !self->n_heads || self->left || w[1] < 1 || w[2] < 1)
            return TFM__FAIL_CONFIG(l->err,
                                    "'%s' has [%d, %d, %d], expected a layer below %d that has "
                                    "attention, once, and a window of 1 (the position itself) "
                                    "or more to the left and right",
                                    name, w[0], w[1], w[2], stack->n);
        self->left = w[1], self->right = w[2];
    }
    return TFM_OK;
}

/* Checks what the config states against the shapes and vocabularies. */
static tfm_status tfm__config_check(tfm__loader *l, const tfm__config_stated *stated) {
    const tfm_config *c = &l->model->config;
    const tfm_decode_options *o = &stated->decoding;
    int32_t V = c->src_language ? c->src_vocab_size : INT32_MAX, i;
    if (c->tgt_language_forced && V > c->tgt_vocab_size) V = c->tgt_vocab_size;
    for (i = 0; i < TFM__N_CONFIG_FIELDS; i++)
        TFM__TRY(tfm__config_check_field(&tfm__config_fields[i], stated, c, l->err));
    for (i = 0; i < TFM__N_DECODE_FIELDS; i++)
        if (tfm__decode_fields[i].kind >= TFM__FIELD_IDS)
            TFM__TRY(tfm__config_check_field(&tfm__decode_fields[i], o, c, l->err));
    TFM__TRY(tfm__check_decode_fields(o, c, "transformer.config: decoding: ", l->err));
    for (i = 0; i < c->n_alignment_heads; i++) {
        const int32_t *head = c->alignment_heads + 2 * i;
        int32_t k;
        if (head[0] >= c->n_decoder_layers || head[1] >= c->n_heads)
            return TFM__FAIL_CONFIG(l->err, "'alignment_heads' has [%d, %d] of %d layers, %d heads",
                                    head[0], head[1], c->n_decoder_layers, c->n_heads);
        for (k = 0; k < i && memcmp(head, c->alignment_heads + 2 * k, 2 * sizeof *head) != 0;) k++;
        if (k < i)
            return TFM__FAIL_CONFIG(l->err, "'alignment_heads' has [%d, %d] twice", head[0],
                                    head[1]);
    }
    for (i = 0; i < 2; i++)
        TFM__TRY(tfm__config_check_windows(l, i ? "decoder_windows" : "encoder_windows",
                                           i ? c->decoder_windows : c->encoder_windows,
                                           i ? c->n_decoder_windows : c->n_encoder_windows,
                                           i ? &l->model->decoder : &l->model->encoder));
    if (c->max_target_positions &&
        tfm__max(o->max_length, o->min_length + 1) > c->max_target_positions)
        return TFM__FAIL_CONFIG(l->err, "decoding: %s is %d, there are positions for %d tokens",
                                o->max_length ? "max_length" : "min_length",
                                o->max_length ? o->max_length : o->min_length,
                                c->max_target_positions);
    for (i = 0; i < c->n_languages; i++)
        if (c->languages[i].id >= V)
            return TFM__FAIL_CONFIG(l->err,
                                    "'languages' has %d for %s, expected an id below %d, the "
                                    "number of tokens in the vocabulary",
                                    c->languages[i].id, c->languages[i].code, V);
    return TFM_OK;
}

/* Sets the model's config from what the file states, but leaves sizes 0: shapes will say them.
   Panels are padded, so a packed file has to state the sizes of its matrices. */
static tfm_status tfm__load_config(tfm__loader *l, const tfm__config_stated *stated) {
    tfm_config *c = &l->model->config;
    int k;
    *c = stated->config;
    l->model->decoding = stated->decoding;
    l->packed = stated->packed >= 0;
    if (l->packed && stated->packed != TFM__PACKED_LAYOUT)
        return TFM__FAIL_CONFIG(l->err, "'packed' is %d, expected %d: make it with build/quantize",
                                stated->packed, (int32_t)TFM__PACKED_LAYOUT);
    for (k = 0; k < TFM__N_CONFIG_FIELDS; k++) {
        const tfm__config_field *f = &tfm__config_fields[k];
        double size = tfm__config_get(f, stated);
        if (f->rule < TFM__RULE_SHAPE) continue;
        if (l->packed && f->rule == TFM__RULE_STATED && size < 1 &&
            (f->at != offsetof(tfm__config_stated, config.src_vocab_size) ||
             tfm_safetensors_find(l->file, "src_embedding.weight") >= 0))
            return TFM__FAIL_CONFIG(l->err, "'%s' is missing or 0, and the file is packed",
                                    f->name);
        tfm__config_put(f, c, l->packed && f->rule >= TFM__RULE_PADDED && size > 0 ? size : 0);
    }
    if (l->packed && stated->config.d_ff_decoder < 0) c->d_ff_decoder = c->d_ff;
    if (l->packed && !c->d_ff_decoder) return TFM__FAIL_CONFIG(l->err, "'d_ff_decoder' is 0");
    return TFM_OK;
}

/* Packs all matrices that are multiplied. Everything must have been checked. */
static tfm_status tfm__load_pack(tfm__loader *l) {
    tfm_model *m = l->model;
    tfm__packer p;
    tfm__linear *w;
    int64_t columns = 0;
    p.kernels = m->kernels = tfm__kernel_choose(l->options.exact);
    p.err = l->err;
    p.weights = l->options.weights;
    p.in_place = l->options.in_place;
    p.owns_bytes = l->owns_bytes;
    for (w = m->linears; w; w = w->next) columns = tfm__max(columns, w->w.columns);
    TFM__TRY(tfm__pool_take(&l->file->pool, tfm__packed_scratch(columns), sizeof(float), &p.scratch,
                            l->err));
    return tfm__packed_make_all(&p, &m->pool, m->linears);
}

TFM_DEF const char *tfm_arithmetic_string(const tfm_model *model) {
#if defined(TRANSFORMER_BLAS)
    return model ? "BLAS" : NULL;
#elif defined(__FLT_EVAL_METHOD__) && __FLT_EVAL_METHOD__ != 0
    return model ? "excess precision" : NULL;
#else
    const tfm__linear *w = model ? model->linears : NULL;
    if (!model) return NULL;
    for (; w && model->kernels->narrow; w = w->next)
        if (w->w.type == TFM_WEIGHT_TYPE_BF16) return "fused, pairs of bf16";
    return model->kernels->fused ? "fused" : "separate";
#endif
}

/* Returns whether a tensor or metadata key is the program's and not the model's. */
static int tfm__load_is_extra(const char *name) { return strncmp(name, "extra.", 6) == 0; }

/* Loads the model: config, then tensors in the order in which their shapes become known. */
static tfm_status tfm__load_all(tfm__loader *l) {
    tfm_model *m = l->model;
    tfm_config *c = &m->config;
    tfm__config_stated stated;
    const char *text = tfm_safetensors_metadata(l->file, "transformer.config");
    int64_t i;
    if (!text)
        return tfm__fail(l->err, TFM_E_CONFIG,
                         "metadata has no 'transformer.config': not a model file "
                         "(tools/convert.py makes one from a checkpoint)");
    for (i = 0; i < l->file->n_metadata; i++) {
        const char *key = l->file->metadata[2 * i];
        if (!tfm__load_is_extra(key) && tfm__config_choice(&tfm__metadata_words, key) < 0)
            return tfm__fail(l->err, TFM_E_CONFIG, "metadata key '%s' is not part of a model", key);
    }
    TFM__TRY(tfm__config_read(text, &m->pool, &stated, l->err));
    TFM__TRY(tfm__load_config(l, &stated));
    m->source.name = "src";
    m->source.pad = c->src_pad;
    m->target.name = "tgt";
    m->target.pad = c->tgt_pad;
    TFM__TRY(tfm__load_embeddings(l));
    TFM__TRY(tfm__load_lexicon(l));
    if (c->embedding_scale >= TFM__BEYOND) c->embedding_scale = sqrt((double)c->d_model);
    if (c->d_input)
        TFM__TRY(tfm__load_stack(l, "encoder", 0, &c->n_encoder_layers, &c->d_ff, &m->encoder));
    TFM__TRY(tfm__load_stack(l, "decoder", 1, &c->n_decoder_layers, &c->d_ff_decoder, &m->decoder));
    if (!c->d_input) c->d_ff = c->d_ff_decoder, c->n_kv_heads = c->n_kv_heads_decoder;
    if (c->norm_kind == TFM_NORM_KIND_LAYER_NORM_UNBIASED && c->d_model < 2)
        return TFM__FAIL_CONFIG(l->err,
                                "'layer_norm' is layer_norm_unbiased and d_model is 1: d_model "
                                "must be at least 2");
    TFM__TRY(tfm__load_text(l));
    for (i = 0; i < l->file->n_entries; i++)
        if (!l->file->entries[i].is_used && !tfm__load_is_extra(l->file->entries[i].name))
            return TFM__FAIL_TENSOR(l, "tensor '%s' is not part of a model",
                                    l->file->entries[i].name);
    TFM__TRY(tfm__config_check(l, &stated));
    /* everything is checked; nothing was built so far */
    TFM__TRY(tfm__build_text(l));
    if (!m->target.positions.data) m->target.positions = m->source.positions;
    return tfm__load_pack(l);
}

/* Loads m from size bytes at data. On failure m is freed. */
static tfm_status tfm__load_bytes(tfm_model **model, tfm_model *m, const void *data, size_t size,
                                  int owns_bytes, const tfm_model_options *options,
                                  tfm_error *err) {
    tfm__loader l;
    tfm_status status;
    memset(&l, 0, sizeof l);
    l.model = m;
    l.err = err;
    l.owns_bytes = owns_bytes;
    if (options) l.options = *options;
    status = tfm_safetensors_open(&l.file, data, size, &m->pool.allocator, err);
    if (status == TFM_OK) status = tfm__load_all(&l);
    tfm_safetensors_free(l.file);
    if (status != TFM_OK) tfm_model_free(m);
    else *model = m;
    return status;
}

/* Checks the arguments of calls that load a model, and makes an empty one. */
static tfm_status tfm__load_begin(tfm_model **m, tfm_model **model, const tfm_model_options *o,
                                  tfm_error *err) {
    if (!model) return tfm__fail(err, TFM_E_ARGUMENT, "model is NULL");
    if (o && ((int)o->weights < 0 || o->weights > TFM_WEIGHT_TYPE_I8))
        return tfm__fail(
            err, TFM_E_ARGUMENT,
            "weights is %d, expected TFM_WEIGHT_TYPE_AS_STORED (0) to TFM_WEIGHT_TYPE_I8 (%d)",
            (int32_t)o->weights, (int32_t)TFM_WEIGHT_TYPE_I8);
    return tfm__pool_make(o ? o->allocator : NULL, sizeof **m, m, err);
}

TFM_DEF tfm_status tfm_model_load(tfm_model **model, const void *data, size_t size,
                                  const tfm_model_options *options, tfm_error *err) {
    tfm_model *m = NULL;
    TFM__TRY(tfm__load_begin(&m, model, options, err));
    return tfm__load_bytes(model, m, data, size, options && options->overwrite, options, err);
}

#ifndef TRANSFORMER_NO_STDIO
#ifdef TRANSFORMER_MMAP
/* Maps the file at path, which the model then owns. The mapping is removed if loading fails. */
static tfm_status tfm__load_mapped(tfm_model **model, const char *path,
                                   const tfm_model_options *options, tfm_error *err) {
    struct stat about;
    tfm_model *m = NULL;
    void *data = MAP_FAILED;
    tfm_status status;
    int file = open(path, O_RDONLY);
    if (file < 0) return tfm__fail(err, TFM_E_IO, "cannot be opened");
    if (fstat(file, &about) == 0 && about.st_size > 0)
        data = mmap(NULL, (size_t)about.st_size, PROT_READ, MAP_PRIVATE, file, 0);
    close(file);
    if (data == MAP_FAILED) return tfm__fail(err, TFM_E_IO, "empty, or cannot be mapped");
    status = tfm__load_begin(&m, model, options, err);
    if (status == TFM_OK)
        status = tfm__load_bytes(model, m, data, (size_t)about.st_size, 0, options, err);
    if (status != TFM_OK) {
        munmap(data, (size_t)about.st_size);
        return status;
    }
    (*model)->mapping = data;
    (*model)->mapped = (size_t)about.st_size;
    return TFM_OK;
}
#endif

TFM_DEF tfm_status tfm_model_load_file(tfm_model **model, const char *path,
                                       const tfm_model_options *options, tfm_error *err) {
    tfm_model *m = NULL;
    void *data = NULL;
    int64_t size = 0;
    tfm_status status;
    if (!path) return tfm__fail(err, TFM_E_ARGUMENT, "path is NULL");
#ifdef TRANSFORMER_MMAP
    if (options && options->map)
        return tfm__file_named(tfm__load_mapped(model, path, options, err), path, err);
#endif
    if (options && options->map)
        return tfm__fail(err, TFM_E_ARGUMENT,
                         "map: this build cannot map files: compile with TRANSFORMER_MMAP");
    TFM__TRY(tfm__load_begin(&m, model, options, err));
    status = tfm__file_read_path(path, &m->pool, &data, &size, err);
    if (status == TFM_OK) status = tfm__load_bytes(model, m, data, (size_t)size, 1, options, err);
    else tfm_model_free(m);
    return tfm__file_named(status, path, err);
}
#endif

TFM_DEF void tfm_model_free(tfm_model *model) {
#ifdef TRANSFORMER_MMAP
    if (model && model->mapping) munmap(model->mapping, model->mapped);
#endif
    if (model) tfm__pool_free(model->pool);
}

TFM_DEF const tfm_config *tfm_model_config(const tfm_model *model) {
    return model ? &model->config : NULL;
}

/* >>session =======================================================================================
   32. SESSIONS
   One arena holds everything. A pass works on a group of rows that fits the scratch, so memory has
   a bound for any batch. A row's results are the same bits in every batch, because no sum has terms
   of two rows.

   The encoder runs once for each source. Then each decoder layer computes the keys and values of
   its cross-attention. The target's keys and values are appended position by position: a step
   computes one position and reads the others. The teacher-forced pass does the same for all
   positions at once, so it gives the same numbers. This section relies on the stack, and on a model
   that the loader has checked.
   ============================================================================================== */

enum { TFM__GROUP = 512 };     /* positions of a pass; more if one sentence is longer */
enum { TFM__NO_ID = -2 };      /* id of a source position that has no id: neither token nor -1 */
enum { TFM__TEXT_BYTES = 64 }; /* bytes of normalized text for each of max_source tokens */

/* A hypothesis is stored as its last token. The tokens before are found by back-pointers. */
typedef struct tfm__hypothesis {
    int32_t row;       /* row of its last token in the paths, and of its next step in the cache */
    int32_t length;    /* tokens without the end token */
    int32_t on_prefix; /* 1 while every token follows the prefix */
    int32_t end;       /* the end token, if finish is TFM_FINISH_ENDED */
    tfm_finish finish;
    double sum, score;
    /* sum and length after an alternative's first token: its score counts only what follows */
    double base;
    int32_t base_length;
} tfm__hypothesis;

/* The token that a step chose for a row. */
typedef struct tfm__path_token {
    int32_t id, back; /* back: the row of the token before */
    double sum;       /* of log-probabilities up to this token */
} tfm__path_token;

/* One search: for a sentence, or for one of its samples or alternatives. */
typedef struct tfm__beam {
    int32_t sentence, number;
    int32_t first_row;  /* of its rows in the paths and the cache; it has search.beam of them */
    int32_t n_live;     /* running hypotheses; 0 means that this search is over */
    int32_t n_ended;    /* hypotheses that ended so far */
    int32_t n_kept;     /* the best of them, which are in ended */
    int32_t best_ended; /* 1 if the best candidate of some step was an end token */
    tfm__hypothesis *live, *ended; /* [search.beam], [search.max_ended]: best first */
} tfm__beam;

typedef struct tfm__sentence {
    const int32_t *prompt, *prefix; /* of its request; prompt NULL: the start token */
    struct {
        const int32_t *ids;
        int32_t n;      /* 0: it has no draft */
        int32_t at;     /* the token that is expected next, number n after the last */
        int32_t most;   /* how many tokens the next step may verify */
        int32_t credit; /* how many tokens may still be verified in vain */
    } draft;
    uint64_t seed;
    tfm_status status;  /* of its request; if it failed, its row of out_ids has the message */
    int32_t cap;        /* maximum number of tokens, the end token included */
    int32_t n_prompt;   /* ids that the decoder reads before them: of the prompt, or the start */
    int32_t first;      /* a forced first token, or -1 */
    int32_t n_prefix;   /* tokens of the prefix after it */
    int32_t position;   /* of the token that the next step chooses */
    int32_t n_live;     /* running hypotheses of all its beams; 0 means that it is done */
    int32_t n_beams;    /* 1, or after the split one for each sample or alternative */
    int32_t is_split;   /* 1: samples and alternatives have beams of their own */
    int32_t logits_row; /* of the last step, which gives or gave its first hypothesis a token;
                             those of its other hypotheses follow. -1: it was in no step */
} tfm__sentence;

/* A token that may follow hypothesis number from, with the sum of log-probabilities up to it. */
typedef struct tfm__candidate {
    double total;
    int32_t from, id;
} tfm__candidate;

typedef struct tfm__candidates {
    tfm__candidate *pool;
    void **items; /* [n]: pointers into the pool */
    int64_t n, capacity;
} tfm__candidates;

/* The rows of the output projection that a decode needs, in the model's layout. Ids are sorted. */
typedef struct tfm__shortlist {
    int32_t max, n;          /* max: of the session; n: of this decode, 0 = the whole vocabulary */
    int32_t *ids;            /* [n]: the caller's ids, or those of all sentences together */
    int32_t *own, *n_own;    /* [B, max], [B]: ids of each sentence, by the lexicon */
    int32_t *indices;        /* [V]: index of an id in ids, for a lexical shortlist */
    unsigned char *listed;   /* [V]: 1 = in the list that was checked last */
    unsigned char *expanded; /* [running hypotheses]: 1 = the row has logits of all ids again */
    tfm__linear linear;      /* the gathered rows of the generator */
    float *bias;             /* its bias [n], or NULL */
} tfm__shortlist;

enum {
    TFM__LOGITS_BLOCK = 256, /* logits whose largest tells whether one of them can be chosen */
    TFM__LOGITS_COST = 16    /* operations that take as long as summing up a logit */
};

static int64_t tfm__logits_blocks(int64_t n) { return tfm__blocks(n, TFM__LOGITS_BLOCK); }

/* The logits of one hypothesis: x[i] is that of ids[i] (ascending) or of i without ids. */
typedef struct tfm__logits {
    float *x;
    float *tops;     /* [n / TFM__LOGITS_BLOCK, rounded up]: the largest of each block of x */
    double *log_sum; /* log sum_v exp(x[v]), by which logits become log-probabilities */
    const int32_t *ids;
    int64_t n;
} tfm__logits;

/* Rows of ids: a whole batch, or those of one pass. */
typedef struct tfm__id_rows {
    int32_t *ids;        /* [B, L], filled up with pads */
    int32_t *lengths;    /* [B]: without the pads after the last token */
    unsigned char *pads; /* [B, L]: 1 = pad; NULL: none */
    int32_t B, L;
    int has_holes;        /* 1 if some pad has a token after it */
    const int32_t *given; /* rows of the source, which may have vectors; NULL: a target's ids */
} tfm__id_rows;

/* M is max_batch * max_beam: each hypothesis that can run has a row. N rows take part in a step: M,
   or, if that is more, 1 + max_draft for each sentence. */
struct tfm_session {
    const tfm_model *model;
    tfm_allocator allocator;
    void *allocation; /* what the allocator returned; it also holds this struct */
    tfm__team team;
#ifdef TFM__THREADS
    tfm__workers workers; /* threads that the session started for its team */
#endif
    int32_t max_batch, max_source, max_target, max_beam;
    int32_t max_rows, max_step; /* M, N */
    int32_t max_draft;          /* tokens of a draft that a step verifies, for each sentence */
    struct {
        float *rows;    /* [max(max_source, max_target), D]; NULL: learned or none */
        int64_t n;      /* rows that were computed so far */
        float *bias[2]; /* [tables, H, 2 * max - 1]: relative positions of encoder, decoder */
        float *rotary;  /* [max(max_source, max_target), rotary_columns] */
    } positions;
    struct {
        tfm__kv *self, *cross; /* [decoder layers]: max_target and max_source positions a row */
        int is_f16;
    } cache;
    struct {
        float *x; /* [group, max(D, d_memory)]: the residual stream of a pass */
        tfm__work work;
        int32_t *path;              /* [max_target + 1]: tokens or rows of one hypothesis */
        tfm__hypothesis *next;      /* [max_beam]: of one beam */
        tfm__candidates candidates; /* of one beam */
    } scratch;
    tfm__id_rows src;   /* the source of the last encode; B is 0 before the first. A row of length 0
                           is a request whose source is blank or failed: it does not run */
    tfm__id_rows tgt;   /* the target of a teacher-forced pass */
    int32_t *order;     /* [B]: the rows of passes over several positions, longest first */
    tfm__id_rows group; /* the ids of one such pass */
    /* The requests of a call, until all of them are checked. The decode in progress must not change
       before, so this is in memory of tgt, order and group. The message of a request that failed
       is in its part of out_ids. */
    struct {
        int32_t *ids;      /* [B, max_source]: of texts */
        int32_t *lengths;  /* [B]: ids of a source; 0: it is blank, or the request failed */
        int32_t *left_out; /* [B]: tokens of a text for which there was no room (truncate) */
        int32_t *status;   /* [B]: why a request failed (skip_errors), or TFM_OK */
    } asked;
    struct {
        const tfm_request *requests; /* that the source comes from, until it is encoded */
        int is_lent;           /* 1: memory keeps translations (tfm__kept), so passes no output */
        int has_keys;          /* 1: the cache has the keys and values of this source */
        tfm_weight_type tiles; /* type in which attention multiplies: F32 or BF16 */
        int32_t *left_out;     /* [B]: tokens of the source that were truncated */
        float *memory;         /* [B, S, D]: the output */
    } encoder;
    tfm_decode_options decode;             /* of the last tfm_session_start */
    const tfm_decode_options *decoding_of; /* of calls without options; NULL: greedy */
    struct {
        int started;          /* tfm_session_start was called, and no other pass since */
        int32_t forced;       /* first target token of every sentence, -1, TFM__LANGUAGE_UNSET */
        int32_t beam, n_best; /* as in the options, with their defaults */
        int32_t max_ended;    /* ended hypotheses to keep in each beam */
        int32_t n_running;    /* sentences that are not done */
        tfm__sentence *sentences;      /* [B] */
        tfm__beam *beams;              /* [B, max_beam] */
        tfm__hypothesis *live, *ended; /* [M]: those of all beams */
        int32_t *out_ids;              /* [M, max_target]: the ids of results */
    } search;
    tfm__path_token *tokens; /* [max_target, M]: what each step chose for each row */
    float *attention;        /* [max_target, M, max_source]; NULL: a session without attention */
    struct {                 /* the hypotheses of the last step */
        int32_t n;
        int32_t *rows, *sentences, *ids; /* [n]: ids are the last tokens */
        int32_t *firsts;                 /* [n]: position of the last token in the cache */
        int32_t *ancestry;               /* [n, max_target]: cache rows of their positions */
        float *logits;                   /* [n, V]: see tfm__logits_get */
        float *tops;                     /* [n, V / TFM__LOGITS_BLOCK, rounded up] */
        double *log_sums;                /* [n] */
        int is_summed;                   /* 1: tops and log_sums are those of logits */
        int32_t *heads;                  /* [H, 2]: room for a list */
        const int32_t *listed; /* [n_listed, 2]: the layers and heads whose attention is kept */
        int32_t n_listed;
        float *attention; /* [n_listed, n, S] */
    } step;
    struct { /* tokens that must not be chosen: as a set, and as the list of its members */
        unsigned char *set; /* [V]: 1 = banned */
        int32_t *ids, n;    /* [V] */
    } bans;
    tfm__shortlist shortlist;
    struct {
        int32_t language;        /* token before each source, -1 or TFM__LANGUAGE_UNSET */
        tfm_sentences sentences; /* SPLIT or not: how tfm_translate reads a text */
        int32_t joined;          /* texts that encoder.memory keeps (tfm__kept); 0: none */
        unsigned char *scratch;  /* for texts of TFM__TEXT_BYTES a token after normalization */
        size_t scratch_size;
    } text;
};

/* Allocates rows of a cache for the keys and values of an attention. */
static tfm_status tfm__kv_alloc(tfm_arena *arena, int64_t rows, const tfm__projections *w,
                                tfm__kv *kv, tfm_error *err) {
    size_t size = kv->is_f16 ? sizeof(uint16_t) : sizeof(float);
    TFM__TRY(tfm__take(arena, rows * kv->capacity, w->key.w.rows, size, &kv->k, err));
    return tfm__take(arena, rows * kv->capacity, w->value.w.rows, size, &kv->v, err);
}

/* Lays out the caches of decoder layers: of the target (or an SSRU's states) and of the memory. */
static tfm_status tfm__session_layout_cache(tfm_session *s, tfm_arena *arena, tfm_error *err) {
    const tfm__stack *d = &s->model->decoder;
    int32_t i;
    TFM__TRY(TFM__TAKE(arena, d->n, 1, &s->cache.self, err));
    TFM__TRY(TFM__TAKE(arena, d->n, 1, &s->cache.cross, err));
    for (i = 0; i < d->n; i++) {
        tfm__kv self = {NULL, NULL, 1, s->cache.is_f16, s->max_target, 1 + (int64_t)s->max_draft};
        tfm__kv cross = {NULL, NULL, 1, s->cache.is_f16, s->max_source, 0};
        if (tfm__is_ssru(d->layers[i]))
            TFM__TRY(tfm__take(arena, s->max_rows * self.slots, s->model->config.d_model,
                               sizeof(float), &self.k, err));
        else TFM__TRY(tfm__kv_alloc(arena, s->max_rows, &d->layers[i]->self, &self, err));
        TFM__TRY(tfm__kv_alloc(arena, s->max_batch, tfm__layer_memory(d->layers[i]), &cross, err));
        if (s->cache.self && s->cache.cross) s->cache.self[i] = self, s->cache.cross[i] = cross;
    }
    return TFM_OK;
}

/* Returns the longest row that the session can have, in positions. */
static int64_t tfm__session_longest(const tfm_session *s) {
    return tfm__max(s->max_source, s->max_target);
}

/* Returns how many rows of the residual stream one pass has at most: a step may have max_step. */
static int64_t tfm__session_group_rows(const tfm_session *s) {
    int64_t longest = tfm__session_longest(s);
    return tfm__max(tfm__max(longest, s->max_step), tfm__min(TFM__GROUP, s->max_batch * longest));
}

/* Returns how many of n sentences of L positions one pass can have. */
static int32_t tfm__session_group(const tfm_session *s, int64_t n, int64_t L) {
    return (int32_t)tfm__min(n, tfm__max(1, tfm__session_group_rows(s) / L));
}

/* Returns how many candidates a sentence can have at once: sampling may need every token. */
static int64_t tfm__session_max_candidates(const tfm_session *s) {
    return tfm__max(2 * (int64_t)s->max_beam, s->model->config.tgt_vocab_size);
}

/* Lays out what passes and the search need, row by row. */
static tfm_status tfm__session_layout_rows(tfm_session *s, int attention, tfm_arena *arena,
                                           tfm_error *err) {
    const tfm_model *m = s->model;
    const tfm_config *c = &m->config;
    int64_t B = s->max_batch, S = s->max_source, T = s->max_target, M = s->max_rows;
    int64_t N = s->max_step;
    int64_t D = c->d_model, V = c->tgt_vocab_size, group = tfm__session_group_rows(s);
    int64_t candidates = tfm__session_max_candidates(s);
    if (c->positions != TFM_POSITION_KIND_LEARNED && c->positions != TFM_POSITION_KIND_NONE)
        TFM__TRY(TFM__TAKE(arena, tfm__session_longest(s), D, &s->positions.rows, err));
    TFM__TRY(TFM__TAKE(arena, m->encoder.relative_heads, 2 * S - 1, &s->positions.bias[0], err));
    TFM__TRY(TFM__TAKE(arena, m->decoder.relative_heads, 2 * T - 1, &s->positions.bias[1], err));
    TFM__TRY(
        TFM__TAKE(arena, tfm__session_longest(s), m->rotary_columns, &s->positions.rotary, err));
    TFM__TRY(TFM__TAKE(arena, group, tfm__max(D, c->d_memory), &s->scratch.x, err));
    TFM__TRY(TFM__TAKE(arena, B, tfm__max(S, T), &s->tgt.ids, err));
    TFM__TRY(TFM__TAKE(arena, B, T, &s->tgt.pads, err));
    TFM__TRY(TFM__TAKE(arena, B, 1, &s->tgt.lengths, err));
    TFM__TRY(TFM__TAKE(arena, B, S, &s->src.ids, err));
    TFM__TRY(TFM__TAKE(arena, B, S, &s->src.pads, err));
    TFM__TRY(TFM__TAKE(arena, B, 1, &s->src.lengths, err));
    TFM__TRY(TFM__TAKE(arena, group, 1, &s->group.ids, err));
    TFM__TRY(TFM__TAKE(arena, group, 1, &s->group.pads, err));
    TFM__TRY(TFM__TAKE(arena, B, 1, &s->group.lengths, err));
    TFM__TRY(TFM__TAKE(arena, B, 1, &s->order, err));
    s->asked.ids = s->tgt.ids, s->asked.lengths = s->tgt.lengths;
    s->asked.left_out = s->order, s->asked.status = s->group.lengths;
    TFM__TRY(TFM__TAKE(arena, B, 1, &s->encoder.left_out, err));
    TFM__TRY(TFM__TAKE(arena, B * S, c->d_memory, &s->encoder.memory, err));
    TFM__TRY(TFM__TAKE(arena, B, 1, &s->search.sentences, err));
    TFM__TRY(TFM__TAKE(arena, M, 1, &s->search.beams, err));
    TFM__TRY(TFM__TAKE(arena, M, 1, &s->search.live, err));
    TFM__TRY(TFM__TAKE(arena, M, 1, &s->search.ended, err));
    TFM__TRY(TFM__TAKE(arena, M, T, &s->search.out_ids, err));
    TFM__TRY(TFM__TAKE(arena, T, M, &s->tokens, err));
    TFM__TRY(TFM__TAKE(arena, N, 1, &s->step.rows, err));
    TFM__TRY(TFM__TAKE(arena, N, 1, &s->step.sentences, err));
    TFM__TRY(TFM__TAKE(arena, N, 1, &s->step.ids, err));
    TFM__TRY(TFM__TAKE(arena, N, 1, &s->step.firsts, err));
    TFM__TRY(TFM__TAKE(arena, N, T, &s->step.ancestry, err));
    TFM__TRY(TFM__TAKE(arena, N, V, &s->step.logits, err));
    TFM__TRY(TFM__TAKE(arena, N, tfm__logits_blocks(V), &s->step.tops, err));
    TFM__TRY(TFM__TAKE(arena, N, 1, &s->step.log_sums, err));
    TFM__TRY(TFM__TAKE(arena, V, 1, &s->bans.set, err));
    TFM__TRY(TFM__TAKE(arena, V, 1, &s->bans.ids, err));
    TFM__TRY(TFM__TAKE(arena, T + 1, 1, &s->scratch.path, err));
    TFM__TRY(TFM__TAKE(arena, s->max_beam, 1, &s->scratch.next, err));
    TFM__TRY(TFM__TAKE(arena, candidates, 1, &s->scratch.candidates.pool, err));
    TFM__TRY(TFM__TAKE(arena, candidates, 1, &s->scratch.candidates.items, err));
    if (!attention) return TFM_OK;
    TFM__TRY(TFM__TAKE(arena, c->n_heads, 2, &s->step.heads, err));
    N *= tfm__max(c->n_heads, c->n_alignment_heads);
    TFM__TRY(TFM__TAKE(arena, N, S, &s->step.attention, err));
    return TFM__TAKE(arena, T * M, S, &s->attention, err);
}

/* Lays out a shortlist. Without one, all its pointers stay NULL. */
static tfm_status tfm__session_layout_shortlist(tfm_session *s, tfm_arena *arena, tfm_error *err) {
    tfm__shortlist *l = &s->shortlist;
    const tfm__linear *generator = &s->model->generator;
    int64_t V = s->model->config.tgt_vocab_size;
    if (!l->max) return TFM_OK;
    TFM__TRY(TFM__TAKE(arena, l->max, 1, &l->ids, err));
    TFM__TRY(TFM__TAKE(arena, V, 1, &l->listed, err));
    TFM__TRY(TFM__TAKE(arena, s->max_step, 1, &l->expanded, err));
    if (s->model->config.has_shortlist) {
        TFM__TRY(TFM__TAKE(arena, s->max_batch, l->max, &l->own, err));
        TFM__TRY(TFM__TAKE(arena, s->max_batch, 1, &l->n_own, err));
        TFM__TRY(TFM__TAKE(arena, V, 1, &l->indices, err));
    }
    if (generator->bias) TFM__TRY(TFM__TAKE(arena, l->max, 1, &l->bias, err));
    l->linear.bias = l->bias;
    return tfm__matrix_alloc_rows(arena, &generator->w, l->max, &l->linear.w, err);
}

#ifndef TRANSFORMER_NO_TEXT
/* Lays out what the text calls need. Only kinds that normalize need scratch. */
static tfm_status tfm__session_layout_text(tfm_session *s, tfm_arena *arena, tfm_error *err) {
    if (tfm__has_cells(&s->model->source)) {
        tfm_arena need = tfm_arena_measuring();
        int64_t bytes = (int64_t)s->max_source * TFM__TEXT_BYTES;
        tfm__lattice b;
        TFM__TRY(tfm__lattice_alloc(&b, &s->model->source, bytes, &need, err));
        s->text.scratch_size = need.peak;
        TFM__TRY(TFM__TAKE(arena, (int64_t)need.peak, 1, &s->text.scratch, err));
    }
    return TFM_OK;
}
#endif

/* Takes all memory of the session from the arena. The same code measures and lays out, so both
   always agree. */
static tfm_status tfm__session_layout(tfm_session *s, int attention, tfm_arena *arena,
                                      tfm_error *err) {
    const tfm_model *m = s->model;
    const tfm__linear *w;
    tfm_decode_options *decoding = NULL;
    tfm__sizes z;
    int64_t converted = 0, scores;
    int32_t i;
    memset(&z, 0, sizeof z);
    if (s->decoding_of) TFM__TRY(TFM__TAKE(arena, 1, 1, &decoding, err));
    if (decoding) *decoding = *s->decoding_of, s->decoding_of = decoding;
    for (i = 0; i < m->encoder.n; i++) tfm__sizes_grow(&z, m->encoder.layers[i]);
    for (i = 0; i < m->decoder.n; i++) tfm__sizes_grow(&z, m->decoder.layers[i]);
    z.M = z.key_rows = tfm__session_group_rows(s);
    z.D = m->config.d_model;
    scores = m->config.cross_attention ? s->max_source + (int64_t)s->max_target
                                       : tfm__session_longest(s);
    z.scores = s->team.n * tfm__max(scores, tfm__attend_tile_scratch(s->encoder.tiles,
                                                                     s->max_source, z.K, z.W));
    TFM__TRY(tfm__work_alloc(arena, &z, &s->scratch.work, err));
    s->scratch.work.scores_size = z.scores / s->team.n;
    for (w = m->linears; w; w = w->next)
        converted = tfm__max(converted, tfm__product_x_bytes(m->kernels, &w->w));
    TFM__TRY(TFM__TAKE(arena, z.M + TFM__MOST_ROWS, converted, &s->team.converted, err));
    TFM__TRY(TFM__TAKE(arena, converted ? z.M : 0, 1, &s->team.scales, err));
    TFM__TRY(tfm__session_layout_cache(s, arena, err));
    TFM__TRY(tfm__session_layout_rows(s, attention, arena, err));
#ifndef TRANSFORMER_NO_TEXT
    TFM__TRY(tfm__session_layout_text(s, arena, err));
#endif
    return tfm__session_layout_shortlist(s, arena, err);
}

/* Makes limits of 0 large enough for what the decoding options d need. */
static void tfm__session_allow(tfm_session_options *o, const tfm_decode_options *d, int32_t V) {
    if (!o->max_beam) o->max_beam = (int32_t)tfm__min(INT32_MAX, tfm__decode_hypotheses(d));
    if (!o->max_shortlist) o->max_shortlist = d->lexical_shortlist ? V : d->n_shortlist;
}

static int tfm__session_keeps_attention(const tfm_session_options *o) {
    return o->attention || (o->decoding && tfm__decode_needs_attention(o->decoding));
}

/* Checks options, sets limits and allocator of s, and measures the session. Afterwards arena->peak
   is the number of bytes that the session needs. */
static tfm_status tfm__session_plan(tfm_session *s, const tfm_model *model,
                                    const tfm_session_options *options, tfm_arena *arena,
                                    tfm_error *err) {
    tfm_session_options o;
    tfm_session *self; /* it comes first in its own memory */
    const tfm_config *c;
    int32_t most_source, most_target;
    if (!model) return tfm__fail(err, TFM_E_ARGUMENT, "model is NULL");
    memset(&o, 0, sizeof o);
    memset(s, 0, sizeof *s);
    if (options) o = *options;
    s->decoding_of = o.decoding;
    s->max_batch = o.max_batch ? o.max_batch : 1;
    if (o.decoding) tfm__session_allow(&o, o.decoding, model->config.tgt_vocab_size);
    s->max_beam = o.max_beam ? o.max_beam : 1;
    if (o.max_batch < 0 || o.max_source < 0 || o.max_target < 0 || o.max_beam < 0 ||
        o.max_source > INT32_MAX / 2 - 8 || o.max_draft < 0 || o.max_draft == INT32_MAX ||
        s->max_batch > INT32_MAX / tfm__max(s->max_beam, 1 + (int64_t)o.max_draft))
        return tfm__fail(
            err, TFM_E_ARGUMENT,
            "max_batch %d, max_beam %d, max_source %d, max_target %d, max_draft %d: a "
            "limit is out of range, expected 0 or more, and fewer than 2^31 rows in all",
            o.max_batch, o.max_beam, o.max_source, o.max_target, o.max_draft);
    s->max_rows = s->max_batch * s->max_beam;
    s->max_draft = o.max_draft;
    s->max_step = s->max_batch * (int32_t)tfm__max(s->max_beam, 1 + o.max_draft);
    s->team.kernels = model->kernels;
    s->team.n = o.threads ? o.threads : 1;
    if (o.threads < 0 || o.threads > TFM__MOST_THREADS)
        return tfm__fail(err, TFM_E_ARGUMENT, "threads is %d, expected 0 to %d", o.threads,
                         (int32_t)TFM__MOST_THREADS);
    if (o.parallel && !o.parallel->run)
        return tfm__fail(err, TFM_E_ARGUMENT,
                         "parallel has no run: set run, or leave parallel NULL");
    if (o.parallel && !o.threads)
        return tfm__fail(err, TFM_E_ARGUMENT,
                         "parallel is given and threads is 0: set threads to how many threads "
                         "parallel has");
    if (o.parallel) s->team.parallel = *o.parallel;
#ifndef TFM__THREADS
    else s->team.n = 1; /* this build cannot start threads */
#endif
    /* only learned positions have a limit, the size of their table */
    c = &model->config;
    most_source = c->max_source_positions ? c->max_source_positions : INT32_MAX;
    most_target = c->max_target_positions ? c->max_target_positions : INT32_MAX;
    if (o.max_source > most_source || o.max_target > most_target)
        return tfm__fail(err, TFM_E_TOO_LONG,
                         "max_source %d and max_target %d, but the model has positions for %d: set "
                         "a lower limit, or 0 for the model's",
                         o.max_source, o.max_target,
                         o.max_source > most_source ? most_source : most_target);
    if (o.attention < 0 || o.attention > 1)
        return tfm__fail(err, TFM_E_ARGUMENT, "attention is %d, expected 0 or 1", o.attention);
    if (o.max_shortlist < 0 || o.max_shortlist > c->tgt_vocab_size)
        return tfm__fail(err, TFM_E_ARGUMENT,
                         "max_shortlist is %d, expected 0 to the target vocabulary's %d tokens",
                         o.max_shortlist, c->tgt_vocab_size);
    if (o.cache != TFM_DTYPE_F32 && o.cache != TFM_DTYPE_F16)
        return tfm__fail(err, TFM_E_ARGUMENT, "cache is %s, expected F32 or F16",
                         tfm_dtype_name(o.cache));
    s->cache.is_f16 = o.cache == TFM_DTYPE_F16;
    TFM__TRY(tfm__check_choice((int)o.sentences, &tfm__sentences_words, "sentences", "", err));
    s->text.sentences = o.sentences ? o.sentences : c->sentences;
    if (o.encoder_attention != TFM_DTYPE_F32 && o.encoder_attention != TFM_DTYPE_BF16)
        return tfm__fail(err, TFM_E_ARGUMENT, "encoder_attention is %s, expected F32 or BF16",
                         tfm_dtype_name(o.encoder_attention));
    s->encoder.tiles = o.encoder_attention == TFM_DTYPE_BF16 && model->kernels->narrow
                           ? TFM_WEIGHT_TYPE_BF16
                           : TFM_WEIGHT_TYPE_F32;
    s->shortlist.max = o.max_shortlist;
    s->text.language = c->src_language ? TFM__LANGUAGE_UNSET : -1;
    s->search.forced = c->tgt_language_forced ? TFM__LANGUAGE_UNSET : c->forced;
    /* a default never exceeds the model's positions; only a limit that was asked for can */
    s->model = model;
    s->max_source = o.max_source ? o.max_source : (int32_t)tfm__min(512, most_source);
    s->max_target = o.max_target;
    if (!s->max_target) {
        int64_t most = tfm__usual_length(s->max_source);
        if (s->decoding_of)
            most = tfm__max(most, tfm__max(s->decoding_of->max_length, s->decoding_of->min_length));
        s->max_target = (int32_t)tfm__min(most, most_target);
    }
    if (!o.allocator) o.allocator = &model->pool.allocator;
    TFM__TRY(tfm__choose_allocator(&s->allocator, o.allocator, err));
    *arena = tfm_arena_measuring();
    TFM__TRY(TFM__TAKE(arena, 1, 1, &self, err));
    return tfm__session_layout(s, tfm__session_keeps_attention(&o), arena, err);
}

TFM_DEF tfm_status tfm_session_bytes(const tfm_model *model, const tfm_session_options *options,
                                     size_t *bytes, tfm_error *err) {
    tfm_session plan;
    tfm_arena arena;
    if (!bytes) return tfm__fail(err, TFM_E_ARGUMENT, "bytes is NULL");
    TFM__TRY(tfm__session_plan(&plan, model, options, &arena, err));
    *bytes = arena.peak;
    return TFM_OK;
}

TFM_DEF tfm_status tfm_session_create(tfm_session **session, const tfm_model *model,
                                      const tfm_session_options *options, tfm_error *err) {
    tfm_session plan, *s;
    tfm_arena arena;
    void *memory = NULL;
    if (!session) return tfm__fail(err, TFM_E_ARGUMENT, "session is NULL");
    TFM__TRY(tfm__session_plan(&plan, model, options, &arena, err));
    TFM__TRY(tfm__allocate(&plan.allocator, (int64_t)arena.peak, &memory, err));
    arena = tfm_arena_make(memory, arena.peak);
    (void)TFM__TAKE(&arena, 1, 1, &s, NULL);
    *s = plan;
    s->allocation = memory;
    (void)tfm__session_layout(s, options && tfm__session_keeps_attention(options), &arena, NULL);
    s->scratch.work.team = &s->team;
    tfm__stack_spread(&model->encoder, s->max_source, s->positions.bias[0]);
    tfm__stack_spread(&model->decoder, s->max_target, s->positions.bias[1]);
#ifdef TFM__THREADS
    if (s->team.n > 1 && !s->team.parallel.run) {
        tfm_status status = tfm__workers_start(&s->workers, s->team.n - 1, err);
        if (status != TFM_OK) {
            s->allocator.release(s->allocator.user, s->allocation);
            return status;
        }
        s->team.parallel.run = tfm__workers_run;
        s->team.parallel.user = s->team.workers = &s->workers;
    }
#endif
    *session = s;
    return TFM_OK;
}

TFM_DEF void tfm_session_free(tfm_session *session) {
    tfm_session *s = session;
    if (!s) return;
#ifdef TFM__THREADS
    if (s->workers.n) tfm__workers_stop(&s->workers);
#endif
    s->allocator.release(s->allocator.user, s->allocation);
}

/* Checks that n ids can be read and are in the vocabulary. row -1: they are the only list. */
static tfm_status tfm__ids_check(const int32_t *ids, int32_t n, int32_t vocab, const char *name,
                                 int32_t row, tfm_error *err) {
    char where[32] = "";
    int32_t i;
    if (n < 0 || (n && !ids))
        return tfm__fail(err, TFM_E_ARGUMENT,
                         n < 0 ? "%s: %i ids, expected 0 or more" : "%s: %i ids, but it is NULL",
                         name, (int64_t)n);
    for (i = 0; i < n && ids[i] >= 0 && ids[i] < vocab;) i++;
    if (i == n) return TFM_OK;
    if (row >= 0) tfm__format(where, sizeof where, "row %d, ", row);
    return tfm__fail(err, TFM_E_TOKEN, "%s: %sposition %d: id %d, the vocabulary has %d tokens",
                     name, where, i, ids[i], vocab);
}

/* Checks n lists, each of `least` to `most` ids, which are in the vocabulary. */
static tfm_status tfm__id_lists_check(const tfm_ids *lists, int32_t n, int32_t vocab,
                                      const char *name, int32_t least, int32_t most,
                                      tfm_error *err) {
    int32_t i;
    if (n < 0 || (n && !lists))
        return tfm__fail(err, TFM_E_ARGUMENT,
                         n < 0 ? "%s: %i lists, expected 0 or more"
                               : "%s: %i lists, but it is NULL",
                         name, (int64_t)n);
    for (i = 0; i < n; i++) {
        if (lists[i].n < least || lists[i].n > most)
            return tfm__fail(err, lists[i].n > most ? TFM_E_TOO_LONG : TFM_E_ARGUMENT,
                             "%s: row %d has %d ids, expected %d to %d", name, i, lists[i].n, least,
                             most);
        TFM__TRY(tfm__ids_check(lists[i].data, lists[i].n, vocab, name, i, err));
    }
    return TFM_OK;
}

/* Returns the length of ids, which may be NULL, without the pads after the last token. */
static int32_t tfm__unpadded_length(const int32_t *ids, int32_t n, int32_t pad) {
    while (n > 0 && ids && ids[n - 1] == pad) n--;
    return n;
}

/* Copies the first ids of a row of n to row b, which has room for `most` and is filled up with
   pads. ids NULL: vectors. */
static void tfm__id_row_set(tfm__id_rows *to, const tfm__side *side, int64_t b, const int32_t *ids,
                            int32_t n, int64_t most) {
    int64_t i;
    to->lengths[b] = (int32_t)tfm__min(n, most);
    for (i = 0; i < to->L; i++) {
        int64_t at = b * to->L + i;
        int32_t id = i >= to->lengths[b] ? side->pad : ids ? ids[i] : 0;
        int is_pad = i >= to->lengths[b] || (ids && id == side->pad);
        if (ids && n > most && i + 1 == most && ids[n - 1] == side->end) id = side->end, is_pad = 0;
        if (id < 0) id = 0; /* no pad id: use any, because pads are masked */
        to->ids[at] = ids ? id : TFM__NO_ID;
        to->pads[at] = (unsigned char)is_pad;
        if (is_pad && i < to->lengths[b]) to->has_holes = 1;
    }
}

/* Computes the encodings of the first n positions, 8 at a time: most sentences need few. */
static void tfm__session_extend_positions(tfm_session *s, int64_t n) {
    const int64_t D = s->model->config.d_model, most = tfm__session_longest(s);
    const tfm_config *c = &s->model->config;
    const tfm__rotary *r = s->model->rotaries;
    tfm_position_options o;
    tfm__rows rows;
    if ((!s->positions.rows && !r) || n <= s->positions.n) return;
    n = tfm__min(most, n + (8 - n % 8) % 8);
    for (; r; r = r->next)
        tfm__rotary_rows(r, s->positions.n, n - s->positions.n,
                         s->positions.rotary + s->positions.n * s->model->rotary_columns,
                         s->model->rotary_columns);
    rows = tfm__rows_make(s->positions.rows, 1, n - s->positions.n, D);
    if (rows.data) rows.data += s->positions.n * D;
    memset(&o, 0, sizeof o);
    o.kind = c->positions;
    o.first = c->position_offset + s->positions.n;
    o.base = c->position_base;
    o.divisor_half = c->position_divisor_half;
    o.double_angles = c->position_double;
    if (s->positions.rows) tfm__position_rows(&rows, &o, NULL);
    s->positions.n = n;
}

/* Gets the vectors of row b of the source; no data if it has none. Returns 1 if they are memory. */
static int tfm__source_vectors(const tfm_session *s, int64_t b, tfm__rows *rows) {
    const tfm_request *r = s->encoder.requests ? s->encoder.requests + b : NULL;
    int64_t L = s->src.L, D = s->model->config.d_memory;
    memset(rows, 0, sizeof *rows);
    if (!r) *rows = tfm__rows_make(s->encoder.memory + b * L * D, 1, L, D);
    else if (r->memory || r->embeddings)
        (void)tfm__view(r->memory ? r->memory : r->embeddings, "src", 2, 2, rows, NULL);
    return !r || r->memory;
}

/* Copies n positions of the caller's embeddings or memory, through a projection if given. The other
   positions of to become 0, because the caller's may be uninitialized. */
static void tfm__encoder_copy_row(const tfm_session *s, tfm__rows from, int64_t n, tfm__rows to,
                                  const tfm__linear *projection) {
    memset(to.data + n * to.D, 0, (size_t)((to.L - n) * to.D) * sizeof *to.data);
    from.B = to.B = 1, from.L = to.L = n;
    if (projection) tfm__linear_run(&s->team, &to, &from, projection);
    else tfm__copy_rows(&to, &from);
}

/* The rows of a stream, which threads share. */
typedef struct tfm__embed {
    const tfm_session *s;
    const tfm__side *side;
    const tfm__id_rows *in;
    const int32_t *firsts;
    tfm__rows x;
    int32_t parts;
} tfm__embed;

static void tfm__embed_part(void *context, int32_t part) {
    const tfm__embed *e = (const tfm__embed *)context;
    const tfm_session *s = e->s;
    const tfm_config *c = &s->model->config;
    const tfm__kernels *kernels = s->team.kernels;
    const tfm_tensor *P = &e->side->positions;
    const tfm__id_rows *in = e->in;
    float scale = (float)c->embedding_scale;
    int64_t D = e->x.D, at = tfm__part_begin(part, e->parts, in->B * in->L, 1);
    int64_t end = tfm__part_begin(part + 1, e->parts, in->B * in->L, 1);
    tfm__rows given;
    for (; at < end; at++) {
        int64_t b = at / in->L, position = tfm__first_of(e->firsts, b) + at % in->L;
        const float *added = NULL;
        float *row = tfm__row(&e->x, b, at % in->L);
        given.data = NULL;
        if (in->given) (void)tfm__source_vectors(s, in->given[b], &given);
        if (e->side->zero_start && position == 0) memset(row, 0, (size_t)D * sizeof *row);
        else if (!given.data) tfm__matrix_read_row(e->side->embedding, in->ids[at], row);
        if (scale != 1 && !given.data) kernels->scale(row, scale, D);
        if (c->positions == TFM_POSITION_KIND_LEARNED && P->data)
            added = (const float *)P->data + (position + c->position_offset) * P->strides[0];
        else if (s->positions.rows) added = s->positions.rows + position * D;
        if (added && !(in->pads && in->pads[at] && c->pad_position_zero))
            kernels->add(row, added, D);
        if (tfm__norm_exists(&e->side->norm)) kernels->norm(row, D, row, D, 1, D, &e->side->norm);
    }
}

/* Begins a pass over ids at positions firsts[b] (NULL: 0) and following. Fills the stream with
   x[b, l] = scale * E[id] + P[first + l], normalized if the model has a norm there, or with the
   caller's memory. */
static tfm__pass tfm__pass_begin(tfm_session *s, const tfm__side *side, const tfm__id_rows *in,
                                 const int32_t *firsts) {
    const tfm_config *c = &s->model->config;
    const tfm__linear *projection = &s->model->projection;
    tfm__rows given; /* all rows of a pass have memory, or none */
    int is_memory = in->given && tfm__source_vectors(s, in->given[0], &given);
    int is_target = side == &s->model->target;
    int64_t b, D = is_memory ? c->d_memory : c->d_model;
    tfm__embed e;
    tfm__pass p;
    memset(&given, 0, sizeof given);
    memset(&p, 0, sizeof p);
    p.x = tfm__rows_make(s->scratch.x, in->B, in->L, D);
    p.firsts = firsts;
    for (b = 0; b < in->B; b++) p.end = tfm__max(p.end, tfm__first_of(firsts, b) + in->L);
    p.bias = s->positions.bias[is_target];
    p.reach = is_target ? s->max_target : s->max_source;
    p.rotary = s->positions.rotary, p.rotary_columns = s->model->rotary_columns;
    p.work = s->scratch.work;
    TFM__PART(EMBEDDING);
    if (!is_memory) tfm__session_extend_positions(s, p.end);
    for (b = 0; in->given && b < in->B; b++) {
        (void)tfm__source_vectors(s, in->given[b], &given);
        if (given.data)
            tfm__encoder_copy_row(s, given, in->lengths[b],
                                  tfm__rows_make(tfm__row(&p.x, b, 0), 1, in->L, D),
                                  is_memory || !projection->w.rows ? NULL : projection);
    }
    if (is_memory) return p;
    e.s = s, e.side = side, e.in = in, e.firsts = firsts, e.x = p.x, e.parts = 1;
    if (tfm__team_shares(&s->team, TFM__NORM_COST * in->B * in->L * D)) e.parts = 2 * s->team.n;
    tfm__team_run(&s->team, tfm__embed_part, &e, e.parts);
    return p;
}

/* Returns masks for these rows as keys. A pad mask is needed only if a pad has a token after it. */
static tfm_masks tfm__id_rows_masks(const tfm__id_rows *keys) {
    tfm_masks masks;
    memset(&masks, 0, sizeof masks);
    masks.key_lengths = keys->lengths;
    if (keys->has_holes)
        masks.key_padding = tfm_tensor_2d(keys->pads, TFM_DTYPE_BOOL, keys->B, keys->L);
    return masks;
}

/* Lists the rows by lengths (NULL: by number), the longest first; equal ones keep their order.
   Insertion sort is fast enough for a batch, and callers often sort by length already. */
static void tfm__session_order_rows(tfm_session *s, const int32_t *lengths) {
    int32_t i, k, *order = s->order;
    for (i = 0; i < s->src.B; i++) {
        for (k = i; lengths && k > 0 && lengths[order[k - 1]] < lengths[i]; k--)
            order[k] = order[k - 1];
        order[k] = i;
    }
}

/* Copies as many of n rows of the source as fit a pass, L positions each, from order[first] on. */
static tfm__id_rows tfm__encoder_gather_group(const tfm_session *s, int64_t first, int64_t n,
                                              int64_t L) {
    tfm__id_rows g = s->group;
    int64_t b;
    g.B = tfm__session_group(s, n - first, L);
    g.L = (int32_t)L;
    g.has_holes = s->src.has_holes;
    g.given = s->order + first;
    for (b = 0; b < g.B; b++) {
        int64_t row = s->order[first + b];
        memcpy(g.ids + b * L, s->src.ids + row * s->src.L, (size_t)L * sizeof *g.ids);
        memcpy(g.pads + b * L, s->src.pads + row * s->src.L, (size_t)L);
        g.lengths[b] = s->src.lengths[row];
    }
    return g;
}

/* Lists the rows that have memory, or need the encoder, the longest first. Returns their number. */
static int32_t tfm__encoder_list_rows(tfm_session *s, int has_memory, int ordered) {
    tfm__rows unused;
    int32_t i, n = 0;
    tfm__session_order_rows(s, ordered ? s->src.lengths : NULL);
    for (i = 0; i < s->src.B; i++)
        if (s->src.lengths[s->order[i]] &&
            tfm__source_vectors(s, s->order[i], &unused) == has_memory)
            s->order[n++] = s->order[i];
    return n;
}

/* Encodes the rows of the source, except those with memory, and, for decoding, computes each
   decoder layer's keys and values of the memory, once for all steps. Without requests, the memory
   is that of the last call. A pass has sentences of similar length, which leaves few pads. If
   attention is wanted, rows stay in the caller's order, as its tensor has them. */
static void tfm__encoder_run(tfm_session *s, int for_decoding, const tfm_tensor *attention) {
    const tfm_model *m = s->model;
    int64_t first, L, b, D = m->config.d_memory;
    int wanted = attention && attention->data, has_memory;
    tfm__id_rows group;
    int32_t i, n;
    s->encoder.has_keys = for_decoding;
    if (!s->encoder.is_lent) s->text.joined = 0;
    for (has_memory = 0; has_memory < 2; has_memory++) {
        n = tfm__encoder_list_rows(s, has_memory, !wanted);
        for (first = 0; first < n; first += group.B) {
            tfm_masks masks;
            tfm__pass p;
            L = wanted ? s->src.L : s->src.lengths[s->order[first]];
            group = tfm__encoder_gather_group(s, first, n, L);
            masks = tfm__id_rows_masks(&group);
            p = tfm__pass_begin(s, &m->source, &group, NULL);
            p.masks[TFM__SELF] = &masks;
            p.attention[TFM__SELF] = attention, p.first_row = first;
            p.work.tiles = s->encoder.tiles;
            if (!has_memory) tfm__stack_run(&p, &m->encoder);
            p.kv_rows[TFM__SELF] = s->order + first;
            for (i = 0; for_decoding && i < m->decoder.n; i++)
                tfm__kv_append(&p, &p.x, tfm__layer_memory(m->decoder.layers[i]),
                               &s->cache.cross[i]);
            for (b = 0; b < group.B && !s->encoder.is_lent; b++) {
                float *row = s->encoder.memory + s->order[first + b] * s->src.L * D;
                memcpy(row, tfm__row(&p.x, b, 0), (size_t)(L * D) * sizeof *row);
                memset(row + L * D, 0, (size_t)((s->src.L - L) * D) * sizeof *row);
            }
        }
    }
    s->encoder.requests = NULL;
}

TFM_DEF tfm_tensor tfm_session_encoder_output(const tfm_session *session) {
    const tfm_session *s = session;
    if (!s) return tfm_tensor_make(NULL, TFM_DTYPE_F32, 0, NULL);
    return tfm_tensor_3d(s->src.B ? s->encoder.memory : NULL, TFM_DTYPE_F32, s->src.B, s->src.L,
                         s->model->config.d_memory);
}

/* Runs the decoder over the session's caches. Row b of the pass has row step.rows[b] of the
   target's cache and row source_rows[b] of the source's. */
static void tfm__decoder_run(tfm_session *s, tfm__pass *p, const int32_t *source_rows) {
    tfm_masks masks = tfm__id_rows_masks(&s->src);
    p->S = s->src.L;
    p->masks[TFM__CROSS] = &masks;
    p->kv[TFM__SELF] = s->cache.self, p->kv[TFM__CROSS] = s->cache.cross;
    p->kv_rows[TFM__SELF] = s->step.rows, p->kv_rows[TFM__CROSS] = source_rows;
    tfm__stack_run(p, &s->model->decoder);
    p->masks[TFM__CROSS] = NULL;
}

/* Returns the teacher-forced decoder's output for as many targets from row b0 on as fit a pass. */
static tfm__rows tfm__decoder_run_group(tfm_session *s, int64_t b0, const tfm_forward_options *o) {
    int64_t b;
    tfm_masks masks = tfm__id_rows_masks(&s->tgt);
    tfm__id_rows group = s->tgt;
    tfm__pass p;
    group.B = tfm__session_group(s, s->src.B - b0, s->tgt.L);
    group.ids += b0 * group.L, group.pads += b0 * group.L, group.lengths += b0;
    p = tfm__pass_begin(s, &s->model->target, &group, NULL);
    for (b = 0; b < group.B; b++) s->step.rows[b] = (int32_t)(b0 + b);
    masks.causal = !o->not_causal;
    p.masks[TFM__SELF] = &masks;
    p.attention[TFM__SELF] = &o->decoder_attention, p.attention[TFM__CROSS] = &o->cross_attention;
    if (o->alignment_heads) p.listed = s->model->config.alignment_heads;
    p.n_listed = s->model->config.n_alignment_heads;
    p.first_row = b0;
    tfm__decoder_run(s, &p, s->step.rows);
    return p.x;
}

/* Computes logits of x by the generator, or by some rows of it. */
static void tfm__generator_run(const tfm_session *s, const tfm__rows *out, const tfm__rows *x,
                               const tfm__linear *generator) {
    const tfm__kernels *kernels = s->team.kernels;
    float cap = (float)s->model->config.logit_cap;
    int64_t b, l, i;
    tfm__linear_run(&s->team, out, x, generator);
    for (b = 0; cap != 0 && b < out->B; b++)
        for (l = 0; l < out->L; l++) {
            /* cap * tanh(y / cap) = 2 cap / (1 + exp(-2 y / cap)) - cap */
            float *y = tfm__row(out, b, l);
            kernels->scale(y, 2 / cap, out->D);
            kernels->activate(y, out->D, (tfm_activation)TFM__SIGMOID);
            kernels->scale(y, 2 * cap, out->D);
            for (i = 0; i < out->D; i++) y[i] -= cap;
        }
}

/* >>search ========================================================================================
   33. DECODING
   Beam search, sampling and alternatives share this code. A running hypothesis has a row of the KV
   cache. Each step records its new token and a back-pointer: the row of the hypothesis that the
   token extends. When hypotheses fork or end, nothing is copied: keys and values stay in the row in
   which they were computed, and the next step reads them along the hypothesis's ancestry. Sentence
   b has the rows from b * max_beam on. A sentence that is done takes no part in later steps.

   Each sentence is searched by itself, from its own logits, in an order that does not depend on its
   batch. Whatever the weights compute, a sentence ends at its cap, and every id is in range. This
   section relies on the session's passes.
   ============================================================================================== */

/* ---- paths: tokens and back-pointers ---- */

/* Returns the room for the max_target ids of a result, or for the message of a failed request. */
static int32_t *tfm__result_ids(const tfm_session *s, int32_t request, int32_t rank) {
    return s->search.out_ids + ((int64_t)request * s->max_beam + rank) * s->max_target;
}

/* Returns the token that step t chose for this row. */
static tfm__path_token *tfm__path_at(const tfm_session *s, int64_t t, int64_t row) {
    return s->tokens + t * s->max_rows + row;
}
static float *tfm__path_attention(const tfm_session *s, int64_t t, int64_t row) {
    return s->attention + (t * s->max_rows + row) * s->max_source;
}

/* Walks a hypothesis back to its beginning. Writes its tokens to ids, and its ancestry to rows:
   rows[t] is the row in which step t was computed, for steps 0 to its length. The last of them is
   the next step, or the one that gave the end token. Either may be NULL. */
static void tfm__path_walk(const tfm_session *s, const tfm__hypothesis *h, int32_t *ids,
                           int32_t *rows) {
    int32_t t, row = h->row;
    for (t = h->length; t >= 0; t--) {
        if (rows && t < s->max_target) rows[t] = row;
        if (t && ids) ids[t - 1] = tfm__path_at(s, t - 1, row)->id;
        if (t) row = tfm__path_at(s, t - 1, row)->back;
    }
}

/* ---- scores ---- */

/* Returns c * sum_s log(min(1, sum_t attention[t, s])) over the source tokens without pads. */
static double tfm__score_coverage(tfm_session *s, int32_t b, const tfm__hypothesis *h) {
    int32_t i, t, steps = h->length + (h->finish == TFM_FINISH_ENDED);
    double sum = 0;
    tfm__path_walk(s, h, NULL, s->scratch.path);
    for (i = 0; i < s->src.lengths[b]; i++) {
        double covered = 0;
        if (s->src.pads[(int64_t)b * s->src.L + i]) continue;
        for (t = 0; t < steps; t++)
            covered += (double)tfm__path_attention(s, t, s->scratch.path[t])[i];
        sum += tfm__log(covered > 1 ? 1 : covered > 1e-30 ? covered : 1e-30);
    }
    return s->decode.coverage_penalty * sum;
}

/* Returns sum / length^length_penalty, for a length that the hypothesis may reach later. For an
   alternative, only what follows its first token is divided. */
static double tfm__score_normalize(const tfm_session *s, const tfm__hypothesis *h, int32_t length) {
    double score = h->sum;
    if (s->decode.length_penalty != 0)
        score = h->base +
                (h->sum - h->base) / tfm__pow((double)tfm__max(1, length - h->base_length),
                                              s->decode.length_penalty);
    return score == score ? score : -INFINITY;
}

/* Returns the logits of hypothesis k of sentence b after a step. */
static tfm__logits tfm__logits_get(const tfm_session *s, int64_t b, int64_t k) {
    const tfm__shortlist *l = &s->shortlist;
    int64_t row = s->search.sentences[b].logits_row + k;
    tfm__logits y;
    y.n = s->model->config.tgt_vocab_size;
    y.x = s->step.logits + row * y.n;
    y.tops = s->step.tops + row * tfm__logits_blocks(y.n);
    y.log_sum = &s->step.log_sums[row];
    y.ids = NULL;
    if (s->decode.lexical_shortlist) y.ids = l->own + b * l->max, y.n = l->n_own[b];
    else if (l->n) y.ids = l->ids, y.n = l->n;
    return y;
}

static int32_t tfm__logits_id(const tfm__logits *y, int64_t i) {
    return y->ids ? y->ids[i] : (int32_t)i;
}

/* Returns where the logit of an id is, or NULL if it has none. */
static float *tfm__logits_find(const tfm__logits *y, int32_t id) {
    int64_t low = 0;
    if (!y->ids) return y->x + id;
    TFM__BISECT(low, y->n, middle, y->ids[middle] < id)
    return low < y->n && y->ids[low] == id ? y->x + low : NULL;
}

/* Returns log sum_v exp(x[v]), for the largest x. x[v] minus this is a log-probability. */
static double tfm__logits_log_sum(const tfm__kernels *kernels, const float *x, float max,
                                  int64_t n) {
    return (double)max + tfm__log(kernels->exp_sum(NULL, x, max, n));
}

/* Finds the largest logit of each block. If with_sum is 1, it also computes log_sum. */
static void tfm__logits_sum(const tfm__kernels *kernels, const tfm__logits *y, int with_sum) {
    enum { BLOCK = TFM__LOGITS_BLOCK };
    int64_t i, blocks = tfm__logits_blocks(y->n);
    for (i = 0; i < blocks; i++)
        y->tops[i] = kernels->largest(y->x + i * BLOCK, tfm__min(BLOCK, y->n - i * BLOCK));
    if (with_sum)
        *y->log_sum = tfm__logits_log_sum(kernels, y->x, kernels->largest(y->tops, blocks), y->n);
}

/* ---- what may come next ---- */

static int tfm__search_is_end(const tfm_session *s, int32_t id) {
    int32_t i = 0;
    while (i < s->decode.n_end_ids && s->decode.end_ids[i] != id) i++;
    return i < s->decode.n_end_ids;
}

/* Returns the end token if this step must choose it, as the last one that the cap allows, or -1. */
static int32_t tfm__sentence_forced_end(const tfm_session *s, int32_t b) {
    const tfm__sentence *sentence = &s->search.sentences[b];
    int is_last = s->decode.force_end && sentence->position + 1 >= sentence->cap;
    return is_last && s->decode.n_end_ids ? s->decode.end_ids[0] : -1;
}

/* Returns an id that the caller or the model gives a row: those of the prompt (or the start token),
   then the first token and the prefix. */
static int32_t tfm__sentence_given_id(const tfm_session *s, int32_t b, int32_t i) {
    const tfm__sentence *sentence = &s->search.sentences[b];
    if (i < sentence->n_prompt && sentence->prompt) return sentence->prompt[i];
    if (i < sentence->n_prompt) return (int32_t)tfm__max(0, s->model->config.start);
    i -= sentence->n_prompt;
    if (sentence->first >= 0 && i-- == 0) return sentence->first;
    return sentence->prefix[i];
}

/* Returns the id that is forced, or favoured by prefix_bias, at this step, or -1. */
static int32_t tfm__sentence_next_id(const tfm_session *s, int32_t b, int *forced) {
    const tfm__sentence *sentence = &s->search.sentences[b];
    int32_t t = sentence->position - (sentence->first >= 0);
    *forced = t < 0 || !(s->decode.prefix_bias > 0);
    if (t >= sentence->n_prefix) return -1;
    return tfm__sentence_given_id(s, b, sentence->n_prompt + sentence->position);
}

/* Bans an id until tfm__ban_drop removes all bans after the first n. */
static void tfm__ban_add(tfm_session *s, int32_t id) {
    if (s->bans.set[id]) return;
    s->bans.set[id] = 1;
    s->bans.ids[s->bans.n++] = id;
}
static void tfm__ban_drop(tfm_session *s, int32_t n) {
    while (s->bans.n > n) s->bans.set[s->bans.ids[--s->bans.n]] = 0;
}

static void tfm__ban_add_ends(tfm_session *s) {
    int32_t i;
    for (i = 0; i < s->decode.n_end_ids; i++) tfm__ban_add(s, s->decode.end_ids[i]);
}

/* Returns whether the last n_tail ids are those of tail. */
static int tfm__ids_end_in(const int32_t *ids, int32_t n, const int32_t *tail, int32_t n_tail) {
    return n_tail <= n && !memcmp(ids + n - n_tail, tail, (size_t)n_tail * sizeof *ids);
}

/* Bans what must not follow the tokens ids [n]. Before them are n_start (0 or 1) start tokens,
   which count for n-grams. */
static void tfm__ban_add_suppressed(tfm_session *s, int32_t b, const int32_t *ids, int32_t n,
                                    int32_t n_start) {
    const tfm_decode_options *o = &s->decode;
    int32_t i, gram = o->no_repeat_ngram;
    if (n < o->min_length) tfm__ban_add_ends(s);
    for (i = 0; i < o->n_suppressed_sequences; i++) {
        const int32_t *sequence = o->suppressed_sequences[i].data;
        int32_t last = o->suppressed_sequences[i].n - 1;
        if (tfm__ids_end_in(ids, n, sequence, last)) tfm__ban_add(s, sequence[last]);
    }
    /* where the last gram - 1 tokens occurred before, the token after them must not follow again */
    ids -= n_start, n += n_start;
    for (i = gram - 1; gram > 0 && i < n; i++)
        if (tfm__ids_end_in(ids, n, ids + i - (gram - 1), gram - 1)) tfm__ban_add(s, ids[i]);
    gram = o->no_source_ngram;
    for (i = gram - 1; gram > 0 && i < s->src.lengths[b]; i++) {
        const int32_t *source = s->src.ids + (int64_t)b * s->src.L + i;
        if (*source < s->model->config.tgt_vocab_size &&
            tfm__ids_end_in(ids, n, source - (gram - 1), gram - 1))
            tfm__ban_add(s, *source);
    }
}

/* Makes each token that occurred before less likely, once. zero is the logit that a penalty does
   not change. */
static void tfm__logits_penalize(tfm_session *s, const tfm__logits *y, const int32_t *ids,
                                 int32_t n, double zero) {
    double penalty = (double)(float)s->decode.repetition_penalty, x;
    float *logit;
    int32_t i, bans = s->bans.n;
    for (i = 0; i < n; i++) {
        if (s->bans.set[ids[i]]) continue; /* penalized already, or banned */
        logit = tfm__logits_find(y, ids[i]);
        x = logit ? (double)*logit - zero : 0;
        if (logit) *logit = (float)((x > 0 ? x / penalty : x * penalty) + zero);
        tfm__ban_add(s, ids[i]);
    }
    tfm__ban_drop(s, bans);
}

static int tfm__logits_are_penalized(const tfm_decode_options *o) {
    return o->repetition_penalty != 0 && o->repetition_penalty != 1;
}

/* Moves the logits of a shortlist to their ids' places among V. The last one moves first, because
   the ids are in ascending order. */
static void tfm__logits_spread(tfm__logits y, int64_t V) {
    int64_t v;
    for (v = V - 1; y.ids && v >= 0; v--)
        y.x[v] = y.n && y.ids[y.n - 1] == v ? y.x[--y.n] : -INFINITY;
}

/* Prepares logits and bans for the choice of h's next token. Returns log_sum. */
static double tfm__logits_prepare(tfm_session *s, int32_t b, const tfm__hypothesis *h,
                                  const tfm__logits *y) {
    const tfm_decode_options *o = &s->decode;
    int32_t start = s->model->config.start;
    int32_t n_start = o->repetition && start >= 0 && !s->search.sentences[b].prompt;
    int after = o->repetition && s->search.beam > 1; /* penalizes log-probabilities, not logits */
    int64_t i;
    s->scratch.path[0] = start;
    tfm__path_walk(s, h, s->scratch.path + n_start, NULL);
    if (o->edit_logits) {
        tfm__logits_spread(*y, s->model->config.tgt_vocab_size);
        o->edit_logits(o->edit_user, b, s->scratch.path + n_start, h->length, y->x);
        for (i = 0; y->ids && i < y->n; i++) y->x[i] = y->x[y->ids[i]];
    }
    if (after) tfm__logits_sum(s->team.kernels, y, 1);
    if (tfm__logits_are_penalized(o))
        tfm__logits_penalize(s, y, s->scratch.path, h->length + n_start, after ? *y->log_sum : 0);
    tfm__ban_add_suppressed(s, b, s->scratch.path + n_start, h->length, n_start);
    if (!s->step.is_summed) tfm__logits_sum(s->team.kernels, y, !after);
    return *y->log_sum;
}

/* ---- candidates: the best few of many tokens ---- */

/* Orders the best candidate first: by total, then the earlier hypothesis, then the lower id. */
static int tfm__candidates_compare(const void *a, const void *b) {
    const tfm__candidate *x = (const tfm__candidate *)a, *y = (const tfm__candidate *)b;
    if (x->total != y->total) return x->total > y->total ? -1 : 1;
    if (x->from != y->from) return x->from < y->from ? -1 : 1;
    return x->id < y->id ? -1 : x->id > y->id;
}

static const tfm__candidate *tfm__candidates_at(const tfm__candidates *c, int64_t i) {
    return (const tfm__candidate *)c->items[i];
}

/* Adds a candidate if it is among the best so far. These are a heap, with the worst on top. */
static void tfm__candidates_offer(tfm__candidates *c, double total, int32_t from, int32_t id) {
    tfm__candidate offered = {total, from, id};
    if (!(total > -INFINITY)) return; /* refuses NaN too */
    if (c->n < c->capacity) {
        c->items[c->n] = &c->pool[c->n];
        c->pool[c->n++] = offered;
        if (c->n == c->capacity) tfm__heap_make(c->items, c->n, tfm__candidates_compare);
    } else if (tfm__candidates_compare(&offered, c->items[0]) < 0) {
        void *worst = c->items[0];
        *(tfm__candidate *)worst = offered;
        tfm__heap_put(c->items, 0, c->n, worst, tfm__candidates_compare);
    }
}

/* Returns a token's log-probability. The variable makes x87 round to a double: then sums have the
   same bits as in tfm_session_score. */
static double tfm__logits_log_p(float logit, double log_sum) {
    double log_p = (double)logit - log_sum;
    return log_p;
}

/* Returns a bound: a logit below it cannot become one of the best. offset is added to a logit for
   its total. The bound is rounded down, so only tfm__candidates_offer decides close cases. */
static float tfm__candidates_floor(const tfm__candidates *c, double offset) {
    double floor;
    if (c->n < c->capacity) return -INFINITY;
    floor = tfm__candidates_at(c, 0)->total - offset;
    return (float)(floor - 1e-6 * (fabs(floor) + 1));
}

/* Offers each token that is not banned, with the total base + (logit - log_sum). */
static void tfm__candidates_offer_all(tfm_session *s, int32_t from, const tfm__logits *y,
                                      double base, double log_sum) {
    enum { BLOCK = TFM__LOGITS_BLOCK };
    tfm__candidates *c = &s->scratch.candidates;
    float floor = tfm__candidates_floor(c, base - log_sum);
    int64_t v;
    for (v = 0; v < y->n; v++) {
        int32_t id;
        if (v % BLOCK == 0 && !(y->tops[v / BLOCK] >= floor)) {
            v += BLOCK - 1; /* no logit of this block is good enough */
            continue;
        }
        id = tfm__logits_id(y, v);
        if (!(y->x[v] >= floor) || s->bans.set[id]) continue;
        tfm__candidates_offer(c, base + tfm__logits_log_p(y->x[v], log_sum), from, id);
        floor = tfm__candidates_floor(c, base - log_sum);
    }
}

/* Offers what may follow h, which is hypothesis number from of its beam. */
static void tfm__candidates_offer_next(tfm_session *s, int32_t b, int32_t from,
                                       const tfm__hypothesis *h, const tfm__logits *y) {
    tfm__candidates *c = &s->scratch.candidates;
    int forced, bans = s->bans.n;
    int32_t wanted = tfm__sentence_next_id(s, b, &forced);
    double log_sum, base = h->sum, bias = s->decode.prefix_bias;
    if (wanted < 0) wanted = tfm__sentence_forced_end(s, b), forced = 1;
    if (wanted >= 0 && forced) {
        tfm__candidates_offer(c, h->sum, from, wanted);
        return;
    }
    log_sum = tfm__logits_prepare(s, b, h, y);
    if (wanted >= 0 && h->on_prefix) {
        float logit = *tfm__logits_find(y, wanted);
        double p = tfm__exp((double)logit - log_sum);
        if (!s->bans.set[wanted] && logit > -INFINITY)
            tfm__candidates_offer(c, h->sum + tfm__log((1 - bias) * p + bias), from, wanted);
        tfm__ban_add(s, wanted);
        base += tfm__log(1 - bias);
    }
    tfm__candidates_offer_all(s, from, y, base, log_sum);
    tfm__ban_drop(s, bans);
}

/* Finds the best candidates of a beam, best first. at is the row of the beam's first hypothesis in
   the sentence's logits. */
static void tfm__candidates_find(tfm_session *s, const tfm__beam *beam, int32_t at,
                                 int64_t capacity) {
    tfm__candidates *c = &s->scratch.candidates;
    int32_t k;
    c->n = 0, c->capacity = capacity;
    for (k = 0; k < beam->n_live; k++) {
        tfm__logits y = tfm__logits_get(s, beam->sentence, at + k);
        tfm__candidates_offer_next(s, beam->sentence, k, &beam->live[k], &y);
    }
    tfm__sort(c->items, c->n, tfm__candidates_compare);
}

/* ---- sampling ---- */

/* Returns bits that look random for each x (the last steps of splitmix64). */
static uint64_t tfm__sample_mix(uint64_t x) {
    x = (x ^ (x >> 30)) * (uint64_t)0xBF58476D1CE4E5B9u;
    x = (x ^ (x >> 27)) * (uint64_t)0x94D049BB133111EBu;
    return x ^ (x >> 31);
}

/* Returns a number in [0, 1) that depends only on its arguments, never on other rows of a batch. */
static double tfm__sample_uniform(uint64_t seed, int32_t sample, int32_t position) {
    const uint64_t step = (uint64_t)0x9E3779B97F4A7C15u;
    uint64_t x = tfm__sample_mix(seed + step);
    x = tfm__sample_mix(x + step * ((uint64_t)sample + 1));
    x = tfm__sample_mix(x + step * ((uint64_t)position + 1));
    return (double)(x >> 11) / 9007199254740992.0; /* 2^53 */
}

/* Returns the probability of a logit, without the normalizing factor. */
static double tfm__sample_weight(const tfm_session *s, double logit, double max) {
    return tfm__exp((logit - max) / (s->decode.temperature > 0 ? s->decode.temperature : 1));
}

/* Keeps the first candidates whose weights have the sum wanted (or all), and returns their sum. */
static double tfm__sample_keep(tfm_session *s, double max, double wanted) {
    tfm__candidates *c = &s->scratch.candidates;
    double sum = 0;
    int64_t i;
    for (i = 0; i < c->n && sum < wanted; i++)
        sum += tfm__sample_weight(s, tfm__candidates_at(c, i)->total, max);
    c->n = i;
    return sum;
}

/* Finds the candidates that top_k and top_p allow, best first, and returns the sum of their
   weights. total is the sum of all weights. */
static double tfm__sample_top(tfm_session *s, const tfm__logits *y, int64_t n_allowed, double max,
                              double total) {
    tfm__candidates *c = &s->scratch.candidates;
    const tfm_decode_options *o = &s->decode;
    int64_t most = o->top_k > 0 ? tfm__min(n_allowed, o->top_k) : n_allowed;
    double sum;
    /* most nuclei are small: begin with few candidates, and repeat with more if needed */
    for (c->capacity = o->top_k > 0 ? most : tfm__min(most, 64);;
         c->capacity = tfm__min(most, 8 * c->capacity)) {
        c->n = 0;
        tfm__candidates_offer_all(s, 0, y, 0, 0);
        tfm__sort(c->items, c->n, tfm__candidates_compare);
        if (!(o->top_p > 0 && o->top_p < 1)) return tfm__sample_keep(s, max, INFINITY);
        if (o->top_k > 0) total = tfm__sample_keep(s, max, INFINITY);
        sum = tfm__sample_keep(s, max, o->top_p * total);
        if (sum >= o->top_p * total || c->capacity == most) return sum;
    }
}

/* Draws an id by the weights of all logits that are not banned. Returns -1 if there is none. */
static int32_t tfm__sample_draw(tfm_session *s, const tfm__logits *y, double uniform) {
    const tfm_decode_options *o = &s->decode;
    const tfm__candidates *c = &s->scratch.candidates;
    int64_t v, i, n = 0;
    int from_top = o->top_k > 0 || (o->top_p > 0 && o->top_p < 1);
    int32_t last = -1;
    double max = -INFINITY, total = 0;
    for (v = 0; v < y->n; v++)
        if (!s->bans.set[tfm__logits_id(y, v)] && (double)y->x[v] > max) max = (double)y->x[v];
    if (!(fabs(max) < INFINITY)) return -1;
    for (v = 0; v < y->n; v++)
        if (!s->bans.set[tfm__logits_id(y, v)] && y->x[v] > -INFINITY)
            total += tfm__sample_weight(s, (double)y->x[v], max), n++;
    if (from_top) total = tfm__sample_top(s, y, n, max, total);
    total *= uniform;
    for (i = 0; i < (from_top ? c->n : y->n) && total >= 0; i++) {
        int32_t id = from_top ? tfm__candidates_at(c, i)->id : tfm__logits_id(y, i);
        double logit = from_top ? tfm__candidates_at(c, i)->total : (double)y->x[i];
        if (s->bans.set[id] || !(logit > -INFINITY)) continue;
        total -= tfm__sample_weight(s, logit, max);
        last = id;
    }
    return last;
}

/* ---- one sentence, one step ---- */

static tfm__beam *tfm__beam_at(const tfm_session *s, int64_t b, int32_t g) {
    return &s->search.beams[b * s->max_beam + g];
}

/* Ends a hypothesis, and inserts it among the best ended ones, after those of equal score. */
static void tfm__beam_finish(tfm_session *s, tfm__beam *beam, const tfm__hypothesis *h,
                             tfm_finish finish) {
    tfm__hypothesis *ended = beam->ended, last = *h;
    int32_t at, max = s->search.max_ended;
    last.finish = finish;
    last.score = tfm__score_normalize(s, h, h->length + (finish == TFM_FINISH_ENDED));
    if (s->decode.coverage_penalty > 0) last.score += tfm__score_coverage(s, beam->sentence, &last);
    beam->n_ended++;
    for (at = beam->n_kept; at > 0 && ended[at - 1].score < last.score; at--)
        if (at < max) ended[at] = ended[at - 1];
    if (at < max) ended[at] = last;
    beam->n_kept = (int32_t)tfm__min(beam->n_kept + 1, max);
}

/* Returns whether the search is over. A beam of 1 is greedy: it ends with the first end token. */
static int tfm__beam_is_done(const tfm_session *s, const tfm__beam *beam) {
    const tfm_decode_options *o = &s->decode;
    const tfm__hypothesis *live = beam->live, *ended = beam->ended;
    double patience = o->patience > 0 ? o->patience : 1;
    int full = beam->n_kept >= s->search.n_best;
    int32_t length = live->length + 1;
    if (!beam->n_live || (s->search.beam == 1 && beam->n_ended)) return 1;
    /* Sums only fall, so the best hypothesis's score is highest at the longest length, or at the
       next one if the penalty is not positive. Can it still exceed the worst of the n best? */
    if (o->length_penalty > 0) length = s->search.sentences[beam->sentence].cap;
    if (full && ended[s->search.n_best - 1].score >= tfm__score_normalize(s, live, length))
        return 1;
    if (o->stop == TFM_STOP_EARLY_NEVER) return 0;
    if (o->stop == TFM_STOP_EARLY_FALSE)
        return beam->n_kept == s->search.max_ended &&
               ended[s->search.max_ended - 1].score >= tfm__score_normalize(s, live, live->length);
    if (o->stop == TFM_STOP_CTRANSLATE2 && o->length_penalty == 0 && o->coverage_penalty == 0)
        return full && beam->best_ended;
    return beam->n_ended >= tfm__max(1, (int64_t)floor(s->search.beam * patience + 0.5));
}

/* Advances a beam by one token. items are n candidates, best first, which continue the hypotheses
   from [n_from]. Among the first search.beam candidates, those that end are finished. The first
   search.beam candidates that do not end run on. Without candidates all hypotheses are stuck. */
static void tfm__beam_advance(tfm_session *s, tfm__beam *beam, const tfm__hypothesis *from,
                              int32_t n_from, void *const *items, int64_t n) {
    tfm__hypothesis *next = s->scratch.next;
    int32_t k, i, n_next = 0, forced, wanted = tfm__sentence_next_id(s, beam->sentence, &forced);
    const tfm__sentence *sentence = &s->search.sentences[beam->sentence];
    int32_t last = sentence->position + 1 >= sentence->cap;
    for (i = 0; i < n; i++) {
        const tfm__candidate *candidate = (const tfm__candidate *)items[i];
        int is_end = tfm__search_is_end(s, candidate->id) && !(wanted >= 0 && forced);
        tfm__hypothesis h = from[candidate->from];
        if ((is_end || last) && i >= s->search.beam) continue;
        if (!is_end && n_next == s->search.beam) continue;
        h.sum = candidate->total;
        if (is_end) h.end = candidate->id;
        else {
            tfm__path_token *token = tfm__path_at(s, h.length++, beam->first_row + n_next);
            token->id = candidate->id, token->back = h.row, token->sum = h.sum;
            h.row = beam->first_row + n_next;
        }
        h.on_prefix = h.on_prefix && candidate->id == wanted;
        if (is_end || last)
            tfm__beam_finish(s, beam, &h, is_end ? TFM_FINISH_ENDED : TFM_FINISH_HIT_LENGTH);
        if (is_end && i == 0) beam->best_ended = 1;
        if (!is_end) next[n_next++] = h;
    }
    for (k = 0; !n && k < n_from; k++) tfm__beam_finish(s, beam, &from[k], TFM_FINISH_STUCK);
    beam->n_live = last ? 0 : n_next;
    memcpy(beam->live, next, (size_t)beam->n_live * sizeof *next);
    if (tfm__beam_is_done(s, beam)) beam->n_live = 0;
}

/* Draws the next token of each of n samples, whose beams begin at first. All samples continue the
   hypothesis of first, whose row in the sentence's logits is at. */
static void tfm__sample_advance(tfm_session *s, tfm__beam *first, int32_t n, int32_t at) {
    tfm__candidates *c = &s->scratch.candidates;
    tfm__hypothesis h = first->live[0];
    tfm__logits y = tfm__logits_get(s, first->sentence, at);
    int32_t g, id, b = first->sentence, end = tfm__sentence_forced_end(s, b), bans = s->bans.n;
    int32_t position = s->search.sentences[b].position;
    uint64_t seed = s->search.sentences[b].seed;
    double log_sum = tfm__logits_prepare(s, b, &h, &y);
    for (g = 0; g < n; g++) {
        double uniform = tfm__sample_uniform(seed, first[g].number, position), log_p = 0;
        id = end >= 0 ? end : tfm__sample_draw(s, &y, uniform);
        if (end < 0 && id >= 0) log_p = tfm__logits_log_p(*tfm__logits_find(&y, id), log_sum);
        c->n = 0, c->capacity = 1;
        if (id >= 0) tfm__candidates_offer(c, h.sum + log_p, 0, id);
        tfm__beam_advance(s, &first[g], &h, 1, c->items, c->n);
    }
    tfm__ban_drop(s, bans);
}

/* Begins the alternatives: gives each of the best tokens, end tokens left out, its own beam. */
static void tfm__sentence_branch(tfm_session *s, int32_t b) {
    const tfm_decode_options *o = &s->decode;
    tfm__beam *beams = tfm__beam_at(s, b, 0);
    tfm__candidates *c = &s->scratch.candidates;
    tfm__hypothesis root = beams->live[0];
    int32_t g, bans = s->bans.n;
    double least = root.sum +
                   tfm__log(o->min_alternative_prob > 0 ? o->min_alternative_prob : 1e-300);
    tfm__ban_add_ends(s);
    tfm__candidates_find(s, beams, 0, o->alternatives);
    tfm__ban_drop(s, bans);
    while (c->n > 1 && tfm__candidates_at(c, c->n - 1)->total < least) c->n--;
    if (!c->n) tfm__beam_advance(s, beams, &root, 1, c->items, 0); /* nothing may follow */
    for (g = 0; g < c->n; g++) {
        root.base = tfm__candidates_at(c, g)->total, root.base_length = root.length + 1;
        tfm__beam_advance(s, &beams[g], &root, 1, &c->items[g], 1);
        s->search.sentences[b].n_beams = g + 1;
    }
}

/* Advances a sentence by one token. Samples and alternatives share one hypothesis while tokens are
   forced; at the first free position each gets its own beam. Of all continuations of a beam's
   hypotheses, the best 2 * beam are candidates, or more if there are several end tokens. Then beam
   of them can run on even if beam of them end. */
static void tfm__sentence_step(tfm_session *s, int32_t b) {
    tfm__sentence *sentence = &s->search.sentences[b];
    const tfm_decode_options *o = &s->decode;
    tfm__candidates *c = &s->scratch.candidates;
    tfm__beam *beam = tfm__beam_at(s, b, 0);
    int64_t most = tfm__min((1 + tfm__max(1, o->n_end_ids)) * (int64_t)s->search.beam,
                            tfm__session_max_candidates(s));
    int32_t g, n, at = 0, forced;
    int splits = (o->samples || o->alternatives) && !sentence->is_split &&
                 tfm__sentence_next_id(s, b, &forced) < 0;
    if (splits) sentence->is_split = 1, sentence->n_beams = o->samples ? o->samples : 1;
    sentence->n_live = 0;
    if (splits && o->samples) tfm__sample_advance(s, beam, o->samples, 0);
    else if (splits) tfm__sentence_branch(s, b);
    for (g = 0; g < sentence->n_beams; g++, at += n) {
        n = splits ? 0 : beam[g].n_live; /* those that just split have advanced */
        if (n && o->samples && sentence->is_split) {
            tfm__sample_advance(s, &beam[g], 1, at);
        } else if (n) {
            tfm__candidates_find(s, &beam[g], at, most);
            tfm__beam_advance(s, &beam[g], beam[g].live, n, c->items, c->n);
        }
        sentence->n_live += beam[g].n_live;
    }
}

/* ---- drafts ----
   A step verifies tokens of a draft. It computes the positions of a sentence's last token and of
   the draft's next tokens at once, a row each. Then it chooses token after token as without a
   draft, for as long as the chosen token is the one of the next row:

       target so far   The cat                 draft   The cat sat on a mat
       rows            cat    sat    on        what follows each of them?
       chosen          sat    on     the       "sat" and "on" are right. "the" is not the
                                               draft's "a", and no row follows it

   This step gave three tokens. Rows after a wrong token are overwritten later. So a draft decides
   how many steps a sentence takes, never what they give. Rows in vain cost time. A sentence pays
   them from a credit, which grows with each token that the draft has right, whether or not a step
   verified it. */

/* With this many rows, a step spends its time on the rows and not on reading weights: verifying a
   token then costs as much as a step for it. */
enum { TFM__DRAFT_ROWS = 8 };

/* Follows the draft over target token t, which is chosen. If the draft has another token, it goes
   on at the nearest place after this token, where the token before agrees too if there is such a
   place; if there is none, one token later. Returns 1 if the draft was right. */
static int tfm__draft_follow(tfm_session *s, int32_t b, int32_t t) {
    enum { TOO_FAR = 1000000 };
    tfm__sentence *sentence = &s->search.sentences[b];
    const int32_t *ids = sentence->draft.ids;
    int32_t n = sentence->draft.n, i, cost, least = TOO_FAR;
    int32_t at = sentence->draft.at, best = at + 1, id = tfm__path_at(s, t, b * s->max_beam)->id;
    if (at < n && ids[at] == id) {
        sentence->draft.at++;
        return 1;
    }
    if (t == 0 && id == sentence->first) return 0; /* a draft without the first token */
    for (i = 0; i < n; i++) {
        if (ids[i] != id) continue;
        cost = 2 * (i < at ? at - i : i - at);
        if (!i || !t || ids[i - 1] != tfm__path_at(s, t - 1, b * s->max_beam)->id) cost += 8;
        if (cost < least) least = cost, best = i + 1;
    }
    sentence->draft.at = (int32_t)tfm__min(n, best);
    return 0;
}

/* Returns how many tokens of its draft a sentence verifies in this step: 0, 1, 3 or 7. With its
   last token these are 1, 2, 4 or 8 rows, which fill tiles: 5 rows take longer than 8. */
static int32_t tfm__draft_count(const tfm_session *s, int32_t b) {
    const tfm__sentence *sentence = &s->search.sentences[b];
    int32_t rows = TFM__DRAFT_ROWS;
    int64_t n =
        tfm__min(sentence->draft.n - sentence->draft.at, sentence->cap - 1 - sentence->position);
    n = tfm__min(n, tfm__min(s->max_draft, TFM__DRAFT_ROWS / s->search.n_running - 1));
    n = tfm__min(n, tfm__min(sentence->draft.most, sentence->draft.credit));
    while (rows > 1 && rows - 1 > n) rows /= 2;
    return rows - 1;
}

/* Compares the token that a sentence chose with its draft. Returns 1 if the step computed the
   position after this token too, so that the sentence can choose the next token now. */
static int tfm__draft_accept(tfm_session *s, int32_t b) {
    tfm__sentence *sentence = &s->search.sentences[b];
    int32_t next = sentence->logits_row + 1, right;
    int verified = next < s->step.n && s->step.sentences[next] == b;
    if (!sentence->draft.n || !sentence->n_live) return 0;
    right = tfm__draft_follow(s, b, sentence->position - 1);
    if (right) {
        sentence->draft.credit = (int32_t)tfm__min(s->max_draft, sentence->draft.credit + 2);
        sentence->draft.most = (int32_t)tfm__min(s->max_draft, sentence->draft.most + 2);
        sentence->logits_row += verified;
        return verified;
    }
    for (; next < s->step.n && s->step.sentences[next] == b; next++) sentence->draft.credit--;
    sentence->draft.most = 1;
    return 0;
}

/* ---- shortlists ----
   A shortlist of the caller is one list for all rows. A lexical one has a list for each sentence,
   from its source alone: one product computes the logits of all lists, and each sentence gets those
   of its own list. */

/* Marks the ids that a source of n ids may need: the first shortlist_first ids, those that the
   lexicon has for its source tokens (and these tokens, if both sides have one vocabulary), ends,
   and forced ids. Returns how many there are. */
static int32_t tfm__shortlist_mark(const tfm_session *s, const tfm_decode_options *o,
                                   const int32_t *ids, int32_t n_ids,
                                   const tfm__sentence *sentence) {
    const tfm_model *m = s->model;
    const tfm__lexicon *lexicon = &m->lexicon;
    unsigned char *listed = s->shortlist.listed;
    int32_t V = m->config.tgt_vocab_size, n = 0, i, id;
    int64_t k;
    memset(listed, 0, (size_t)V);
    memset(listed, 1, (size_t)m->config.shortlist_first);
    for (i = 0; i < n_ids; i++) {
        id = ids[i];
        if (id == m->source.pad) continue;
        if (m->source.embedding == m->target.embedding) listed[id] = 1;
        for (k = tfm__u32_at(lexicon->offsets, id); k < tfm__u32_at(lexicon->offsets, id + 1); k++)
            listed[tfm__u32_at(lexicon->ids, k)] = 1;
    }
    for (i = 0; i < o->n_end_ids; i++) listed[o->end_ids[i]] = 1;
    if (sentence->first >= 0) listed[sentence->first] = 1;
    for (i = 0; i < sentence->n_prefix; i++) listed[sentence->prefix[i]] = 1;
    for (i = 0; i < V; i++) n += listed[i];
    return n;
}

/* Writes the ids that are marked, and returns how many there are. */
static int32_t tfm__shortlist_list(const tfm_session *s, int32_t *ids) {
    int32_t i, n = 0;
    for (i = 0; i < s->model->config.tgt_vocab_size; i++)
        if (s->shortlist.listed[i]) ids[n++] = i;
    return n;
}

/* Lists the ids of each sentence, and those of all sentences together. If the latter exceed
   max_shortlist, the full projection is used (n is 0). */
static void tfm__shortlist_unite(tfm_session *s) {
    tfm__shortlist *l = &s->shortlist;
    int64_t b, i, V = s->model->config.tgt_vocab_size, n = 0;
    memset(l->indices, 0, (size_t)V * sizeof *l->indices);
    for (b = 0; b < s->src.B; b++) {
        if (!s->src.lengths[b]) continue;
        (void)tfm__shortlist_mark(s, &s->decode, s->src.ids + b * s->src.L, s->src.lengths[b],
                                  &s->search.sentences[b]);
        l->n_own[b] = tfm__shortlist_list(s, l->own + b * l->max);
        for (i = 0; i < l->n_own[b]; i++) l->indices[l->own[b * l->max + i]] = 1;
    }
    for (i = 0; i < V; i++) {
        if (!l->indices[i]) continue;
        if (n < l->max) l->ids[n] = (int32_t)i;
        l->indices[i] = (int32_t)n++;
    }
    l->n = n > l->max ? 0 : (int32_t)n;
}

/* Copies the rows of the output projection that the decode needs. */
static void tfm__shortlist_gather(tfm_session *s) {
    const tfm__linear *generator = &s->model->generator;
    tfm__shortlist *l = &s->shortlist;
    int32_t i;
    l->n = 0;
    if (s->decode.n_shortlist) l->n = tfm__shortlist_list(s, l->ids);
    if (s->decode.lexical_shortlist) tfm__shortlist_unite(s);
    if (!l->n) return;
    TFM__PART(OUTPUT);
    tfm__matrix_gather_rows(&l->linear.w, &generator->w, l->ids, l->n);
    for (i = 0; l->bias && i < l->n; i++) l->bias[i] = generator->bias[l->ids[i]];
}

/* Sums up the logits of one row of the step, after it moved those of a lexical shortlist to their
   places. */
static void tfm__logits_sum_row(void *context, int32_t row) {
    const tfm_session *s = (const tfm_session *)context;
    const tfm__shortlist *l = &s->shortlist;
    int64_t i, b = s->step.sentences[row];
    tfm__logits y = tfm__logits_get(s, b, row - s->search.sentences[b].logits_row);
    for (i = 0; s->decode.lexical_shortlist && i < y.n; i++)
        y.x[i] = y.x[l->n ? l->indices[y.ids[i]] : y.ids[i]];
    if (s->step.is_summed) tfm__logits_sum(s->team.kernels, &y, 1);
}

/* Computes the logits of the rows x and writes them where tfm__logits_get finds them. A shortlist's
   logits have the same bits as the full projection's, except with BLAS. Several threads sum up all
   rows of logits here. A single thread sums up a row when its token is chosen, because a draft does
   not need every row. */
static void tfm__logits_compute(tfm_session *s, const tfm__rows *x) {
    tfm__shortlist *l = &s->shortlist;
    tfm__team workers = s->team;
    tfm__rows out = tfm__rows_make(s->step.logits, x->B, 1, s->model->config.tgt_vocab_size);
    if (l->n) out.D = l->n;
    tfm__generator_run(s, &out, x, l->n ? &l->linear : &s->model->generator);
    if (l->expanded) memset(l->expanded, 0, (size_t)x->B);
    s->step.is_summed = x->B > 1 && !s->decode.edit_logits &&
                        !tfm__logits_are_penalized(&s->decode) &&
                        tfm__team_shares(&s->team, TFM__LOGITS_COST * x->B * out.D);
    if (!s->step.is_summed) workers.n = 1;
    TFM__PART(SEARCH);
    if (s->step.is_summed || s->decode.lexical_shortlist)
        tfm__team_run(&workers, tfm__logits_sum_row, s, (int32_t)x->B);
}

/* ---- options ---- */

/* Checks the caller's shortlist: each id is in the vocabulary and occurs once. */
static tfm_status tfm__shortlist_check(const tfm_session *s, const tfm_decode_options *o,
                                       tfm_error *err) {
    const tfm__shortlist *l = &s->shortlist;
    int32_t V = s->model->config.tgt_vocab_size, i;
    TFM__TRY(tfm__ids_check(o->shortlist, o->n_shortlist, V, "shortlist", -1, err));
    if (o->lexical_shortlist && !l->max)
        return tfm__fail(err, TFM_E_ARGUMENT,
                         "lexical_shortlist: the session's max_shortlist is 0: create the session "
                         "with a larger one");
    if (o->n_shortlist > l->max)
        return tfm__fail(err, TFM_E_TOO_LONG,
                         "shortlist has %d ids, the session's max_shortlist is %d", o->n_shortlist,
                         l->max);
    if (o->n_shortlist) memset(l->listed, 0, (size_t)V);
    for (i = 0; i < o->n_shortlist; i++) {
        int32_t id = o->shortlist[i];
        if (l->listed[id])
            return tfm__fail(err, TFM_E_TOKEN, "shortlist: position %d: id %d is there already", i,
                             id);
        l->listed[id] = 1;
    }
    return TFM_OK;
}

/* Checks all options that do not depend on a sentence. */
static tfm_status tfm__search_check_options(const tfm_session *s, const tfm_decode_options *o,
                                            tfm_error *err) {
    const tfm_config *c = &s->model->config;
    int32_t V = c->tgt_vocab_size;
    int64_t hypotheses = tfm__decode_hypotheses(o);
    TFM__TRY(tfm__check_decode_fields(o, c, "", err));
    if (hypotheses > s->max_beam)
        return tfm__fail(err, TFM_E_TOO_LONG, "%s is %i, the session's max_beam %d",
                         o->samples            ? "samples"
                         : o->n_best > o->beam ? "n_best"
                         : !o->alternatives    ? "beam"
                         : o->beam > 1         ? "alternatives * beam"
                                               : "alternatives",
                         hypotheses, s->max_beam);
    if (tfm__max(o->max_length, o->min_length) > s->max_target)
        return tfm__fail(err, TFM_E_TOO_LONG, "%s is %i, the session's max_target %d",
                         o->max_length > s->max_target ? "max_length" : "min_length",
                         tfm__max(o->max_length, o->min_length), s->max_target);
    if (!s->attention && tfm__decode_needs_attention(o))
        return tfm__fail(err, TFM_E_ARGUMENT,
                         "coverage_penalty, attention_layer and attention_head need a session with "
                         "attention: set attention in its options");
    TFM__TRY(tfm__ids_check(o->suppressed, o->n_suppressed, V, "suppressed", -1, err));
    TFM__TRY(tfm__ids_check(o->end_ids, o->n_end_ids, V, "end_ids", -1, err));
    TFM__TRY(tfm__id_lists_check(o->suppressed_sequences, o->n_suppressed_sequences, V,
                                 "suppressed_sequences", 1, INT32_MAX, err));
    return tfm__shortlist_check(s, o, err);
}

/* Checks that a sentence's first token and prefix are in the shortlist, or that a lexical shortlist
   of it fits. ids NULL: the source has none. */
static tfm_status tfm__shortlist_check_sentence(const tfm_session *s, const tfm_decode_options *o,
                                                const int32_t *ids, int32_t n_ids,
                                                const tfm__sentence *sentence, tfm_error *err) {
    int32_t i, n;
    if (!ids && (o->lexical_shortlist || o->no_source_ngram))
        return tfm__fail(err, TFM_E_ARGUMENT,
                         "%s: src has no ids, but embeddings or memory: leave this option 0",
                         o->lexical_shortlist ? "lexical_shortlist" : "no_source_ngram");
    n = o->lexical_shortlist ? tfm__shortlist_mark(s, o, ids, n_ids, sentence) : 0;
    if (n > s->shortlist.max)
        return tfm__fail(err, TFM_E_TOO_LONG,
                         "the source has %d candidates, the session's max_shortlist is %d", n,
                         s->shortlist.max);
    for (i = -1; o->n_shortlist && i < sentence->n_prefix; i++) {
        int32_t id = i < 0 ? sentence->first : sentence->prefix[i];
        if (id >= 0 && !s->shortlist.listed[id])
            return tfm__fail(err, TFM_E_TOKEN, "%s %d is not in the shortlist",
                             i < 0 ? "the first token" : "the prefix's token", id);
    }
    return TFM_OK;
}

/* Plans the sentence of a request whose source has this length, and checks that there is room for
   the forced tokens. first: of the request's language, or below 0. */
static tfm_status tfm__sentence_plan(const tfm_session *s, const tfm_decode_options *o,
                                     const tfm_request *r, int32_t first, int32_t source_length,
                                     tfm__sentence *sentence, tfm_error *err) {
    int64_t forced;
    memset(sentence, 0, sizeof *sentence);
    sentence->logits_row = -1;
    sentence->n_prompt = r->prompt.n ? r->prompt.n : 1;
    if (r->prompt.n) sentence->prompt = r->prompt.data;
    sentence->first = r->first_token ? *r->first_token : first;
    sentence->prefix = r->prefix.data, sentence->n_prefix = r->prefix.n;
    sentence->draft.ids = r->draft.data, sentence->draft.n = r->draft.n;
    sentence->seed = r->seed;
    forced = sentence->n_prefix + (sentence->first >= 0);
    if (sentence->n_prompt > s->max_target)
        return tfm__fail(err, TFM_E_TOO_LONG,
                         "prompt has %d tokens, the session's max_target is %d", sentence->n_prompt,
                         s->max_target);
    sentence->cap = (int32_t)tfm__max(tfm__usual_length(source_length) + sentence->n_prefix,
                                      (int64_t)o->min_length + 1);
    if (o->max_length) sentence->cap = o->max_length;
    sentence->cap = (int32_t)tfm__min(sentence->cap, s->max_target - sentence->n_prompt + 1);
    if (forced > 0 && forced >= sentence->cap && !o->max_length)
        return tfm__fail(err, TFM_E_TOO_LONG,
                         "%i tokens are forced, but max_target leaves room for %d", forced,
                         sentence->cap);
    return TFM_OK;
}

/* Begins a sentence: one hypothesis, with the forced tokens that tfm__prompt_run computes. With
   attention there are none, because steps keep the attention of each token. */
static void tfm__sentence_begin(tfm_session *s, int32_t b) {
    tfm__sentence *sentence = &s->search.sentences[b];
    int32_t i, n = (sentence->first >= 0) + (s->decode.prefix_bias > 0 ? 0 : sentence->n_prefix);
    s->tgt.lengths[b] = sentence->n_live = sentence->n_beams = 0;
    if (!s->src.lengths[b]) return; /* it does not run */
    sentence->n_live = sentence->n_beams = 1;
    for (i = 0; i < s->max_beam / s->search.beam; i++) {
        tfm__beam *beam = tfm__beam_at(s, b, i);
        memset(beam, 0, sizeof *beam);
        beam->sentence = b, beam->number = i, beam->n_live = i == 0;
        beam->first_row = b * s->max_beam + i * s->search.beam;
        beam->live = s->search.live + beam->first_row;
        beam->ended = s->search.ended + beam->first_row;
        memset(beam->live, 0, sizeof *beam->live);
        beam->live->row = beam->first_row;
        beam->live->on_prefix = 1;
    }
    n = s->attention ? 0 : (int32_t)tfm__min(n, sentence->cap - 1); /* the last one is a step's */
    sentence->position = tfm__beam_at(s, b, 0)->live->length = n;
    for (i = 0; i < n; i++) {
        tfm__path_token *token = tfm__path_at(s, i, b * s->max_beam);
        token->id = tfm__sentence_given_id(s, b, sentence->n_prompt + i);
        token->back = b * s->max_beam, token->sum = 0;
        (void)tfm__draft_follow(s, b, i);
    }
    /* fewer in a batch, where each takes a larger share of a step's time */
    sentence->draft.most = sentence->draft.credit = (int32_t)tfm__max(1, 4 / s->search.n_running);
    s->tgt.lengths[b] = sentence->n_prompt - 1 + n;
}

/* Fills the caches with what the steps for the given ids would have computed, up to the last id,
   which the first step reads. A pass has many positions and no output projection. */
static void tfm__prompt_run(tfm_session *s) {
    int32_t b, i, first, *counts = s->tgt.lengths;
    tfm__id_rows group = s->group;
    tfm_masks masks;
    tfm__pass p;
    memset(&masks, 0, sizeof masks);
    masks.causal = 1;
    group.pads = NULL;
    tfm__session_order_rows(s, counts);
    for (first = 0; first < s->src.B && counts[s->order[first]]; first += group.B) {
        const int32_t *rows = s->order + first;
        group.L = counts[rows[0]];
        group.B = tfm__session_group(s, s->src.B - first, group.L);
        while (2 * counts[rows[group.B - 1]] < group.L) group.B--; /* little of it is padding */
        for (b = 0; b < group.B; b++) {
            group.lengths[b] = counts[rows[b]];
            for (i = 0; i < group.L; i++)
                group.ids[b * group.L + i] =
                    i < counts[rows[b]] ? tfm__sentence_given_id(s, rows[b], i) : 0;
            s->step.rows[b] = rows[b] * s->max_beam;
        }
        p = tfm__pass_begin(s, &s->model->target, &group, NULL);
        p.masks[TFM__SELF] = &masks;
        p.lengths = group.lengths, p.only_caches = 1;
        tfm__decoder_run(s, &p, rows);
    }
}

/* Lists the heads whose attention is kept: those of the options, or of the model's config. */
static void tfm__step_list_heads(tfm_session *s) {
    const tfm_config *c = &s->model->config;
    int32_t layer = s->decode.attention_layer, head = s->decode.attention_head, i;
    s->step.listed = c->alignment_heads, s->step.n_listed = c->n_alignment_heads;
    if (!s->attention || (!layer && !head && c->n_alignment_heads)) return;
    s->step.listed = s->step.heads, s->step.n_listed = head ? 1 : c->n_heads;
    for (i = 0; i < s->step.n_listed; i++) {
        s->step.heads[2 * i] = (layer ? layer : c->n_decoder_layers) - 1;
        s->step.heads[2 * i + 1] = head ? head - 1 : i;
    }
}

/* ---- the calls ---- */

TFM_DEF tfm_request tfm_request_text(const char *data, size_t size) {
    tfm_request r;
    memset(&r, 0, sizeof r);
    r.text.data = data || size ? data : "", r.text.size = size;
    return r;
}
TFM_DEF tfm_request tfm_request_ids(const int32_t *data, int32_t n) {
    tfm_request r;
    memset(&r, 0, sizeof r);
    r.ids = tfm_ids_make(data, n);
    return r;
}
TFM_DEF tfm_ids tfm_ids_make(const int32_t *data, int32_t n) {
    tfm_ids ids = {data, n};
    return ids;
}

#ifndef TRANSFORMER_NO_TEXT
/* Replaces the session's language tokens by those of a request, if it has some: *source goes before
   its text, *first is that with which its target begins (below 0: none). */
static tfm_status tfm__request_languages(const tfm_config *c, const tfm_request *r, int32_t *source,
                                         int32_t *first, tfm_error *err) {
    const char *code[2];
    int32_t ids[2], i;
    code[0] = r->source_language, code[1] = r->target_language;
    for (i = 0; i < 2; i++)
        if (code[i]) TFM__TRY(tfm__find_language(c, code[i], strlen(code[i]), &ids[i], err));
    if (code[0] && c->src_language == TFM_LANGUAGE_USE_SOURCE) *source = ids[0];
    if (code[1] && c->src_language == TFM_LANGUAGE_USE_TARGET) *source = ids[1];
    if (code[1] && c->tgt_language_forced) *first = ids[1];
    return TFM_OK;
}

/* Says how long the text is if the session's scratch does not suffice. */
static tfm_status tfm__session_tokenize(tfm_session *s, const tfm_text *source, tfm_text_form form,
                                        tfm__ids *out, tfm_error *err) {
    tfm_arena scratch = tfm_arena_make(s->text.scratch, s->text.scratch_size);
    const tfm__side *side = &s->model->source;
    tfm_status status;
    tfm__normal o;
    status = tfm__tokenize(s->model, side, source, form, out, &scratch, err);
    if (status != TFM_E_ARENA) return status;
    memset(&o, 0, sizeof o);
    return tfm__fail(err, TFM_E_TOO_LONG,
                     "text has %i bytes after normalization, the session takes %i (%i for each of "
                     "max_source tokens)",
                     tfm__normal_text(side, source, &o), (int64_t)s->max_source * TFM__TEXT_BYTES,
                     (int64_t)TFM__TEXT_BYTES);
}

/* Tokenizes the text of request i. */
static tfm_status tfm__request_tokenize(tfm_session *s, const tfm_request *r, int32_t i,
                                        int32_t truncate, int32_t language, tfm_error *err) {
    tfm__ids to;
    memset(&to, 0, sizeof to);
    to.ids = s->asked.ids + (int64_t)i * s->max_source, to.count = &s->asked.lengths[i];
    to.capacity = (int32_t)tfm__min(s->max_source, truncate > 0 ? truncate : INT32_MAX);
    to.left_out = truncate > 0 ? &s->asked.left_out[i] : NULL;
    to.language = language;
    if (!s->model->config.has_text)
        return tfm__fail(err, TFM_E_NO_TEXT,
                         "the model has no vocabularies: use ids, or convert it with them");
    TFM__TRY(tfm__session_tokenize(s, &r->text, TFM_TEXT_FORM_TEXT, &to, err));
    if (s->asked.lengths[i] && s->search.forced == TFM__LANGUAGE_UNSET && !r->target_language)
        return tfm__no_language(err);
    return TFM_OK;
}
#else
static tfm_status tfm__request_languages(const tfm_config *c, const tfm_request *r, int32_t *source,
                                         int32_t *first, tfm_error *err) {
    (void)c, (void)source, (void)first;
    return !r->source_language && !r->target_language && !r->text.data && !r->text.size
               ? TFM_OK
               : tfm__fail(err, TFM_E_NO_TEXT,
                           "the library was compiled with TRANSFORMER_NO_TEXT: give ids, and a "
                           "language as first_token");
}

static tfm_status tfm__request_tokenize(tfm_session *s, const tfm_request *r, int32_t i,
                                        int32_t truncate, int32_t language, tfm_error *err) {
    (void)i, (void)truncate;
    return tfm__request_languages(&s->model->config, r, &language, &language, err);
}
#endif

/* Returns the ids of a request's source, after its text was tokenized, or NULL for vectors. */
static const int32_t *tfm__request_source(const tfm_session *s, const tfm_request *r, int32_t i) {
    return r->text.data || r->text.size ? s->asked.ids + (int64_t)i * s->max_source : r->ids.data;
}

/* Checks the source of request i, and sets lengths[i], left_out[i] and, of a text, ids in asked. */
static tfm_status tfm__request_read(tfm_session *s, const tfm_request *r, int32_t i,
                                    int32_t truncate, int32_t language, tfm_error *err) {
    const tfm_config *c = &s->model->config;
    const tfm_tensor *t = r->memory ? r->memory : r->embeddings;
    int has_text = r->text.data || r->text.size, has_ids = r->ids.data || r->ids.n;
    int32_t most = s->max_source, n = r->ids.n, *length = &s->asked.lengths[i];
    if (has_text + has_ids + (r->embeddings != NULL) + (r->memory != NULL) != 1)
        return tfm__fail(err, TFM_E_ARGUMENT,
                         "the request has %s: set text, ids, embeddings or memory",
                         has_text || has_ids || t ? "two sources" : "no source");
    *length = s->asked.left_out[i] = 0;
    if (has_text) return tfm__request_tokenize(s, r, i, truncate, language, err);
    if (r->embeddings && !c->d_input)
        return tfm__fail(err, TFM_E_ARGUMENT,
                         "src: embeddings, but the model has no encoder: it takes memory");
    if (has_ids && !c->src_vocab_size)
        return tfm__fail(
            err, TFM_E_ARGUMENT,
            "src: ids, but the model has no tensor 'src_embedding.weight': it takes %s",
            c->d_input ? "embeddings or memory" : "memory");
    if (t) {
        tfm_tensor shape = tfm_tensor_2d(NULL, TFM_DTYPE_F32, t->rank == 2 ? t->dims[0] : 1,
                                         r->memory ? c->d_memory : c->d_input);
        TFM__TRY(tfm__check_shape(t, r->memory ? "memory" : "embeddings", shape, err));
        if (t->dims[0] < 1 || t->dims[0] > INT32_MAX)
            return tfm__fail(err, TFM_E_SHAPE, "%s has %i rows, expected 1 or more",
                             r->memory ? "memory" : "embeddings", t->dims[0]);
        n = (int32_t)t->dims[0];
    }
    if (n > most && !truncate)
        return tfm__fail(err, TFM_E_TOO_LONG, "src has %d tokens, the session takes 1 to %d", n,
                         most);
    if (!t) TFM__TRY(tfm__ids_check(r->ids.data, n, c->src_vocab_size, "ids", -1, err));
    *length = tfm__unpadded_length(r->ids.data, n, s->model->source.pad);
    if (n && !*length) return tfm__fail(err, TFM_E_ARGUMENT, "src is all pads: give it a token");
    return TFM_OK;
}

/* Checks how the target of a request begins. */
static tfm_status tfm__request_check_target(const tfm_session *s, const tfm_request *r,
                                            const tfm_decode_options *o, tfm_error *err) {
    const tfm_config *c = &s->model->config;
    int32_t V = c->tgt_vocab_size;
    if (c->start < 0 && !c->start_embedding_zero && !r->prompt.n)
        return TFM__FAIL_CONFIG(
            err, "'start' is missing, so only a prompt can begin a target: set prompt");
    TFM__TRY(tfm__ids_check(r->prompt.data, r->prompt.n, V, "prompt", -1, err));
    if (r->prompt.data && !r->prompt.n)
        return tfm__fail(err, TFM_E_ARGUMENT, "prompt has no ids: give one, or leave data NULL");
    TFM__TRY(tfm__ids_check(r->prefix.data, r->prefix.n, V, "prefix", -1, err));
    TFM__TRY(tfm__ids_check(r->draft.data, r->draft.n, V, "draft", -1, err));
    if (r->first_token) TFM__TRY(tfm__ids_check(r->first_token, 1, V, "first_token", -1, err));
    if (r->draft.n && (o->beam > 1 || o->samples || o->alternatives || !s->max_draft))
        return tfm__fail(err, TFM_E_ARGUMENT, "draft: %s",
                         !s->max_draft
                             ? "the session's max_draft is 0: create the session with a larger one"
                         : o->beam > 1 ? "only greedy decoding can verify it, and beam is above 1"
                         : o->samples  ? "only greedy decoding can verify it, not samples"
                                       : "only greedy decoding can verify it, not alternatives");
    return TFM_OK;
}

/* Checks request i, without a change to the decode in progress. o NULL: no search decodes it. */
static tfm_status tfm__request_check(tfm_session *s, const tfm_request *r, int32_t i,
                                     int has_source, const tfm_decode_options *o, tfm_error *err) {
    int32_t language = s->text.language, first = s->search.forced;
    const int32_t *ids;
    tfm__sentence plan;
    if (o) TFM__TRY(tfm__request_check_target(s, r, o, err));
    TFM__TRY(tfm__request_languages(&s->model->config, r, &language, &first, err));
    if (has_source) {
        TFM__TRY(tfm__request_read(s, r, i, o ? o->truncate : 0, language, err));
        ids = tfm__request_source(s, r, i);
    } else {
        if (r->text.data || r->text.size || r->ids.data || r->ids.n || r->embeddings || r->memory)
            return tfm__fail(err, TFM_E_ARGUMENT,
                             "the request has a source: tfm_session_restart decodes the last one");
        ids = s->src.ids + (int64_t)i * s->src.L;
        s->asked.lengths[i] = s->src.lengths[i];
        if (ids[0] == TFM__NO_ID) ids = NULL;
    }
    if (!o && !s->asked.lengths[i])
        return tfm__fail(err, TFM_E_ARGUMENT, "the source is blank: give it a token");
    if (!o || !s->asked.lengths[i]) return TFM_OK;
    /* the length is 0, because if the shortest cap has room, every cap has */
    TFM__TRY(tfm__sentence_plan(s, o, r, first, 0, &plan, err));
    return tfm__shortlist_check_sentence(s, o, ids, s->asked.lengths[i], &plan, err);
}

/* Checks n requests; NULL: the n last sources. If options skip errors, the results get them. */
static tfm_status tfm__requests_check(tfm_session *s, const tfm_request *requests, int32_t n,
                                      int has_sources, const tfm_decode_options *o,
                                      tfm_error *err) {
    tfm_request none;
    int32_t i;
    memset(&none, 0, sizeof none);
    if (n < 1 || n > s->max_batch)
        return tfm__fail(err, n < 1 ? TFM_E_ARGUMENT : TFM_E_TOO_LONG,
                         "%d requests, the session takes 1 to %d (max_batch)", n, s->max_batch);
    if (!has_sources && !s->src.B)
        return tfm__fail(
            err, TFM_E_ARGUMENT,
            "the session has no source yet: give one, or call tfm_session_encode first");
    if (!has_sources && n != s->src.B)
        return tfm__fail(err, TFM_E_ARGUMENT, "%d requests, but the last source has %d", n,
                         s->src.B);
    for (i = 0; (requests || o) && i < n; i++) {
        tfm_error inner;
        tfm_status status =
            tfm__request_check(s, requests ? &requests[i] : &none, i, has_sources, o, &inner);
        s->asked.status[i] = (int32_t)status;
        if (status == TFM_OK) continue;
        if (!o || !o->skip_errors)
            return n > 1 ? tfm__fail(err, status, "request %d: %m", i, inner.text)
                         : tfm__fail(err, status, "%m", inner.text);
        s->asked.lengths[i] = 0;
        tfm__format(
            (char *)tfm__result_ids(s, i, 0),
            (size_t)tfm__min((int64_t)sizeof inner.text, 4 * (int64_t)s->max_beam * s->max_target),
            "%m", inner.text);
    }
    return TFM_OK;
}

/* Returns the longest of n sources that were checked, at most `most`. */
static int32_t tfm__sources_longest(const tfm_session *s, const tfm_request *requests, int32_t n,
                                    int64_t most) {
    int64_t longest = 1;
    int32_t i;
    for (i = 0; i < n; i++)
        longest =
            tfm__max(longest, tfm__min(most, tfm__max(requests[i].ids.n, s->asked.lengths[i])));
    return (int32_t)longest;
}

/* Copies the sources that were checked. This ends the decode that was running. */
static void tfm__session_read_requests(tfm_session *s, const tfm_request *requests, int32_t n,
                                       int32_t truncate) {
    int64_t most = tfm__min(s->max_source, truncate ? truncate : INT32_MAX);
    int32_t i;
    s->src.B = n, s->src.L = tfm__sources_longest(s, requests, n, most), s->src.has_holes = 0;
    for (i = 0; i < n; i++) {
        int32_t length = s->asked.lengths[i];
        tfm__id_row_set(&s->src, &s->model->source, i, tfm__request_source(s, &requests[i], i),
                        length, most);
        s->encoder.left_out[i] = length ? s->asked.left_out[i] + length - s->src.lengths[i] : 0;
    }
    s->encoder.requests = requests, s->encoder.has_keys = 0;
    s->search.started = 0;
}

/* Starts a decode, with the sources of the requests or with the last ones. Until all requests are
   checked, only asked and the results of requests that failed change. */
static tfm_status tfm__session_begin(tfm_session *s, const tfm_request *requests, int32_t n,
                                     int has_sources, const tfm_decode_options *options,
                                     tfm_error *err) {
    const tfm_config *c;
    tfm_decode_options o;
    tfm_request none;
    int32_t i;
    memset(&o, 0, sizeof o);
    memset(&none, 0, sizeof none);
    if (!s || (!requests && has_sources))
        return tfm__fail(err, TFM_E_ARGUMENT, "session or requests is NULL");
    if (!options) options = s->decoding_of;
    if (options) o = *options;
    c = &s->model->config;
    if (!o.n_end_ids && c->end >= 0) o.end_ids = &c->end, o.n_end_ids = 1;
    TFM__TRY(tfm__search_check_options(s, &o, err));
    TFM__TRY(tfm__requests_check(s, requests, n, has_sources, &o, err));
    if (has_sources) tfm__session_read_requests(s, requests, n, o.truncate);
    for (i = 0, s->search.n_running = 0; i < n; i++) {
        tfm__sentence *sentence = &s->search.sentences[i];
        const tfm_request *r = requests ? &requests[i] : &none;
        int32_t language = s->text.language, first = s->search.forced;
        tfm_status status = has_sources || s->src.lengths[i] ? TFM_OK : sentence->status;
        if (s->asked.status[i]) status = (tfm_status)s->asked.status[i], s->src.lengths[i] = 0;
        s->search.n_running += s->src.lengths[i] > 0;
        (void)tfm__request_languages(c, r, &language, &first, NULL);
        (void)tfm__sentence_plan(s, &o, r, first, s->src.lengths[i], sentence, NULL);
        sentence->status = status;
    }
    if (!s->encoder.has_keys) tfm__encoder_run(s, 1, NULL);
    s->search.started = 1;
    s->decode = o;
    s->search.beam = o.beam ? o.beam : 1;
    s->search.n_best = o.n_best ? o.n_best : 1;
    s->search.max_ended = o.stop == TFM_STOP_EARLY_FALSE ? s->search.beam : s->search.n_best;
    tfm__step_list_heads(s);
    memset(s->bans.set, 0, (size_t)c->tgt_vocab_size);
    s->bans.n = 0; /* the bans of the whole decode come first */
    for (i = 0; i < c->n_suppressed; i++) tfm__ban_add(s, c->suppressed[i]);
    for (i = 0; i < o.n_suppressed; i++) tfm__ban_add(s, o.suppressed[i]);
    if (o.no_unknown && c->tgt_unk >= 0) tfm__ban_add(s, c->tgt_unk);
    for (i = 0; i < n; i++) tfm__sentence_begin(s, i);
    tfm__prompt_run(s);
    tfm__shortlist_gather(s);
    return TFM_OK;
}

TFM_DEF tfm_status tfm_session_start(tfm_session *session, const tfm_request *requests, int32_t n,
                                     const tfm_decode_options *options, tfm_error *err) {
    return tfm__session_begin(session, requests, n, 1, options, err);
}

TFM_DEF tfm_status tfm_session_restart(tfm_session *session, const tfm_request *requests, int32_t n,
                                       const tfm_decode_options *options, tfm_error *err) {
    return tfm__session_begin(session, requests, n, 0, options, err);
}

TFM_DEF const tfm_decode_options *tfm_model_decoding(const tfm_model *model) {
    return model ? &model->decoding : NULL;
}

/* Lists the rows, sentences, last tokens and ancestries of the running hypotheses. Tokens of a
   draft are rows after that of their hypothesis. All of them are in its row of the cache: a layer
   appends the keys and values of all rows, and then each row reads those up to its position. */
static void tfm__step_list(tfm_session *s) {
    int32_t b, g, k, n = 0;
    for (b = 0; b < s->src.B; b++) {
        tfm__sentence *sentence = &s->search.sentences[b];
        int32_t verified = sentence->n_live ? tfm__draft_count(s, b) : 0;
        sentence->logits_row = sentence->n_live ? n : -1;
        for (g = 0; g < sentence->n_beams; g++)
            for (k = 0; k < tfm__beam_at(s, b, g)->n_live; k++, n++) {
                const tfm__hypothesis *h = &tfm__beam_at(s, b, g)->live[k];
                int32_t *ancestry = s->step.ancestry + (int64_t)n * s->max_target;
                int32_t prompt = sentence->n_prompt - 1, i;
                s->step.rows[n] = h->row;
                s->step.sentences[n] = b;
                s->step.firsts[n] = prompt + h->length;
                if (h->length) s->step.ids[n] = tfm__path_at(s, h->length - 1, h->row)->id;
                else s->step.ids[n] = tfm__sentence_given_id(s, b, prompt);
                for (i = 0; i < prompt; i++) ancestry[i] = b * s->max_beam;
                tfm__path_walk(s, h, NULL, ancestry + prompt);
            }
        for (k = 0; k < verified; k++, n++) {
            int32_t *ancestry = s->step.ancestry + (int64_t)n * s->max_target, i;
            s->step.rows[n] = s->step.rows[n - 1];
            s->step.sentences[n] = b;
            s->step.firsts[n] = s->step.firsts[n - 1] + 1;
            s->step.ids[n] = sentence->draft.ids[sentence->draft.at + k];
            for (i = 0; i <= s->step.firsts[n]; i++) ancestry[i] = b * s->max_beam;
        }
    }
    s->step.n = n;
}

/* Stores the mean attention over the listed heads. */
static void tfm__step_store_attention(tfm_session *s) {
    int64_t i, k, x, S = s->src.L, n = s->step.n_listed;
    for (i = 0; i < s->step.n; i++) {
        int32_t t = s->step.firsts[i] - s->search.sentences[s->step.sentences[i]].n_prompt + 1;
        float *out = tfm__path_attention(s, t, s->step.rows[i]);
        for (k = 0; k < n; k++) {
            const float *weights = s->step.attention + (k * s->step.n + i) * S;
            if (k) s->team.kernels->add(out, weights, S);
            else memcpy(out, weights, (size_t)S * sizeof *out);
        }
        for (x = 0; n > 1 && x < S; x++) out[x] /= (float)n;
    }
}

TFM_DEF tfm_status tfm_session_step(tfm_session *session, int32_t *running, tfm_error *err) {
    tfm_session *s = session;
    if (!s || !running) return tfm__fail(err, TFM_E_ARGUMENT, "session or running is NULL");
    if (!s->search.started)
        return tfm__fail(err, TFM_E_STATE, "call tfm_session_start before tfm_session_step");
    if (s->search.n_running) {
        tfm__id_rows last = {s->step.ids, NULL, NULL, 0, 1, 0, NULL}; /* last tokens */
        tfm_tensor attention;
        tfm__pass p;
        int32_t b;
        tfm__step_list(s);
        last.B = s->step.n;
        p = tfm__pass_begin(s, &s->model->target, &last, s->step.firsts);
        p.ancestry = s->step.ancestry;
        p.listed = s->step.listed, p.n_listed = s->step.n_listed;
        attention =
            tfm_tensor_4d(s->step.attention, TFM_DTYPE_F32, p.n_listed, last.B, 1, s->src.L);
        if (s->attention) p.attention[TFM__CROSS] = &attention;
        tfm__decoder_run(s, &p, s->step.sentences);
        TFM__PART(OUTPUT);
        tfm__logits_compute(s, &p.x);
        if (s->attention) tfm__step_store_attention(s);
        for (b = 0; b < s->src.B; b++) {
            if (s->search.sentences[b].logits_row < 0) continue;
            do {
                tfm__sentence_step(s, b);
                s->search.sentences[b].position++;
            } while (tfm__draft_accept(s, b));
            s->search.n_running -= !s->search.sentences[b].n_live;
        }
    }
    TFM__PART(OTHER);
    *running = s->search.n_running;
    return TFM_OK;
}

TFM_DEF tfm_status tfm_session_decode(tfm_session *session, const tfm_request *requests, int32_t n,
                                      const tfm_decode_options *options, tfm_error *err) {
    int32_t running = 0;
    TFM__TRY(tfm_session_start(session, requests, n, options, err));
    do TFM__TRY(tfm_session_step(session, &running, err));
    while (running);
    return TFM_OK;
}

/* Checks that the session is decoding and has this request. */
static tfm_status tfm__result_check(const tfm_session *s, int32_t request, tfm_error *err) {
    if (!s) return tfm__fail(err, TFM_E_ARGUMENT, "session is NULL");
    if (!s->search.started)
        return tfm__fail(err, TFM_E_STATE,
                         "no results: call tfm_session_start or tfm_session_decode first");
    if (request >= 0 && request < s->src.B) return TFM_OK;
    return tfm__fail(err, TFM_E_ARGUMENT, "request is %d, expected 0 to %d: there are %d requests",
                     request, s->src.B - 1, s->src.B);
}

TFM_DEF int32_t tfm_result_count(const tfm_session *session, int32_t request) {
    const tfm_session *s = session;
    const tfm__beam *beam;
    if (tfm__result_check(s, request, NULL) != TFM_OK) return 0;
    if (!s->src.lengths[request]) return 1;
    beam = tfm__beam_at(s, request, 0);
    if (s->decode.samples || s->decode.alternatives) return s->search.sentences[request].n_beams;
    return beam->n_live ? beam->n_live : (int32_t)tfm__min(beam->n_kept, s->search.n_best);
}

/* Returns how many tokens of a hypothesis its result has. */
static int32_t tfm__result_length(const tfm_session *s, const tfm__hypothesis *h) {
    return h->length + (s->decode.keep_end && h->finish == TFM_FINISH_ENDED);
}

/* Finds the result of a rank, 0 for the best. A request that was not decoded has an empty one. */
static tfm_status tfm__result_find(tfm_session *s, int32_t request, int32_t rank,
                                   tfm__hypothesis *h, tfm_error *err) {
    const tfm__beam *beam;
    int32_t n = tfm_result_count(s, request), g;
    memset(h, 0, sizeof *h);
    TFM__TRY(tfm__result_check(s, request, err));
    if (rank < 0 || rank >= n)
        return tfm__fail(err, TFM_E_ARGUMENT, "request %d: rank is %d, and there are %d hypotheses",
                         request, rank, n);
    h->finish = TFM_FINISH_BLANK;
    if (!s->src.lengths[request]) return TFM_OK;
    g = s->decode.samples || s->decode.alternatives ? rank : 0;
    beam = tfm__beam_at(s, request, g);
    *h = (beam->n_live ? beam->live : beam->ended)[rank - g];
    if (h->finish == TFM_FINISH_RUNNING) h->score = tfm__score_normalize(s, h, h->length);
    return TFM_OK;
}

TFM_DEF tfm_status tfm_result_get(tfm_session *session, int32_t request, int32_t rank,
                                  tfm_result *result, tfm_error *err) {
    tfm_session *s = session;
    tfm__hypothesis h;
    int32_t *ids;
    if (!result) return tfm__fail(err, TFM_E_ARGUMENT, "result is NULL");
    TFM__TRY(tfm__result_find(s, request, rank, &h, err));
    ids = tfm__result_ids(s, request, rank);
    memset(result, 0, sizeof *result);
    result->ids = ids;
    result->finish = h.finish;
    result->status = s->search.sentences[request].status;
    result->message = result->status == TFM_OK ? "" : (const char *)ids;
    if (h.finish == TFM_FINISH_BLANK) return TFM_OK;
    tfm__path_walk(s, &h, ids, NULL);
    result->length = tfm__result_length(s, &h);
    if (result->length > h.length) ids[h.length] = h.end;
    result->left_out = s->encoder.left_out[request];
    result->log_probability = h.sum;
    result->score = h.score;
    return TFM_OK;
}

TFM_DEF tfm_status tfm_result_log_probabilities(tfm_session *session, int32_t request, int32_t rank,
                                                double *out, tfm_error *err) {
    tfm__hypothesis h;
    int32_t t;
    if (!out) return tfm__fail(err, TFM_E_ARGUMENT, "out is NULL");
    TFM__TRY(tfm__result_find(session, request, rank, &h, err));
    for (out[h.length] = h.sum, t = h.length - 1; t >= 0; t--) {
        const tfm__path_token *token = tfm__path_at(session, t, h.row);
        out[t] = token->sum;
        out[t + 1] -= out[t];
        h.row = token->back;
    }
    return TFM_OK;
}

/* Finds a result for its attention, and writes the hypothesis's ancestry to scratch.path. */
static tfm_status tfm__result_find_attention(tfm_session *s, int32_t request, int32_t rank,
                                             tfm__hypothesis *h, tfm_error *err) {
    TFM__TRY(tfm__result_find(s, request, rank, h, err));
    if (!s->attention)
        return tfm__fail(err, TFM_E_STATE,
                         "the session was made without attention: set attention in its options");
    tfm__path_walk(s, h, NULL, s->scratch.path);
    return TFM_OK;
}

TFM_DEF tfm_status tfm_result_attention(tfm_session *session, int32_t request, int32_t rank,
                                        tfm_tensor *out, tfm_error *err) {
    tfm_session *s = session;
    tfm__hypothesis h;
    tfm__rows rows;
    tfm_tensor expected;
    int32_t t;
    TFM__TRY(tfm__result_find_attention(s, request, rank, &h, err));
    expected =
        tfm_tensor_2d(NULL, TFM_DTYPE_F32, tfm__result_length(s, &h), s->src.lengths[request]);
    TFM__TRY(tfm__view_like(out, "out", expected, &rows, err));
    for (t = 0; t < expected.dims[0]; t++)
        memcpy(tfm__row(&rows, 0, t), tfm__path_attention(s, t, s->scratch.path[t]),
               (size_t)rows.D * sizeof(float));
    return TFM_OK;
}

TFM_DEF tfm_status tfm_result_alignment(tfm_session *session, int32_t request, int32_t rank,
                                        int32_t *sources, tfm_error *err) {
    tfm_session *s = session;
    const tfm_config *c;
    tfm__hypothesis h;
    int32_t t, i, best;
    if (!sources) return tfm__fail(err, TFM_E_ARGUMENT, "sources is NULL");
    TFM__TRY(tfm__result_find_attention(s, request, rank, &h, err));
    c = &s->model->config;
    for (t = 0; t < tfm__result_length(s, &h); t++) {
        const float *weights = tfm__path_attention(s, t, s->scratch.path[t]);
        for (i = 0, best = -1; i < s->src.lengths[request]; i++) {
            int32_t id = s->src.ids[(int64_t)request * s->src.L + i];
            int edge = (i == 0 && id == c->src_start) ||
                       (i + 1 == s->src.lengths[request] && id == c->src_end);
            if (edge || s->src.pads[(int64_t)request * s->src.L + i]) continue;
            if (best < 0 || weights[i] > weights[best]) best = i;
        }
        sources[t] = best;
    }
    return TFM_OK;
}

TFM_DEF const float *tfm_result_logits(tfm_session *session, int32_t request, int32_t rank) {
    tfm_session *s = session;
    tfm__hypothesis h;
    tfm__logits y;
    int32_t n, t, from, first;
    if (tfm__result_find(s, request, rank, &h, NULL) != TFM_OK) return NULL;
    t = s->search.sentences[request].position - 1; /* the last step */
    first = s->search.sentences[request].logits_row;
    if (t < 0 || h.length < t || first < 0) return NULL;
    from = h.length == t ? h.row : tfm__path_at(s, t, h.row)->back;
    for (n = first; n < s->step.n && s->step.rows[n] != from;) n++;
    if (n == s->step.n) return NULL;
    y = tfm__logits_get(s, request, n - first);
    if (y.ids && !s->shortlist.expanded[n]) tfm__logits_spread(y, s->model->config.tgt_vocab_size);
    if (y.ids) s->shortlist.expanded[n] = 1;
    return y.x;
}

TFM_DEF tfm_status tfm_session_stop(tfm_session *session, int32_t request, tfm_error *err) {
    tfm_session *s = session;
    tfm__sentence *sentence;
    int32_t g, k;
    TFM__TRY(tfm__result_check(s, request, err));
    sentence = &s->search.sentences[request];
    s->search.n_running -= sentence->n_live > 0;
    for (g = 0; g < sentence->n_beams; g++) {
        tfm__beam *beam = tfm__beam_at(s, request, g);
        for (k = 0; k < beam->n_live; k++)
            tfm__beam_finish(s, beam, &beam->live[k], TFM_FINISH_STOPPED);
        beam->n_live = 0;
    }
    sentence->n_live = 0;
    return TFM_OK;
}

/* ---- passes without a search ---- */

TFM_DEF tfm_status tfm_session_encode(tfm_session *session, const tfm_request *requests, int32_t n,
                                      tfm_error *err) {
    if (!session || !requests) return tfm__fail(err, TFM_E_ARGUMENT, "session or requests is NULL");
    TFM__TRY(tfm__requests_check(session, requests, n, 1, NULL, err));
    tfm__session_read_requests(session, requests, n, 0);
    tfm__encoder_run(session, 0, NULL);
    return TFM_OK;
}

TFM_DEF tfm_status tfm_session_forward(tfm_session *session, const tfm_request *requests, int32_t n,
                                       const tfm_ids *targets, const tfm_forward_options *options,
                                       tfm_tensor *logits, tfm_error *err) {
    tfm_session *s = session;
    const tfm_model *m;
    const tfm_config *c;
    tfm_forward_options o;
    tfm_tensor shape;
    tfm__rows x, out;
    tfm__side side;
    int64_t b0;
    int32_t i, S, T = 0;
    if (!s || !targets) return tfm__fail(err, TFM_E_ARGUMENT, "session or targets is NULL");
    m = s->model;
    c = &m->config;
    memset(&o, 0, sizeof o);
    if (options) o = *options;
    side = m->target;
    if (o.keep_pads) side.pad = -1;
    TFM__TRY(tfm__requests_check(s, requests, n, requests != NULL, NULL, err));
    TFM__TRY(tfm__id_lists_check(targets, n, c->tgt_vocab_size, "tgt", 1, s->max_target, err));
    S = requests ? tfm__sources_longest(s, requests, n, s->max_source) : s->src.L;
    for (i = 0; i < n; i++) {
        T = (int32_t)tfm__max(T, targets[i].n);
        if (!tfm__unpadded_length(targets[i].data, targets[i].n, side.pad))
            return tfm__fail(err, TFM_E_ARGUMENT, "tgt: row %d is all pads: give it a token", i);
        if (o.encoder_attention.data && (!requests || requests[i].memory))
            return tfm__fail(
                err, TFM_E_ARGUMENT,
                "encoder_attention: %s, so the encoder does not run: give ids or embeddings",
                requests ? "a request has memory" : "requests is NULL");
    }
    if (o.alignment_heads && !c->n_alignment_heads)
        return tfm__fail(
            err, TFM_E_ARGUMENT,
            "alignment_heads: the model's config has none: leave it 0 for the heads of all layers");
    for (i = 0; i < m->decoder.n; i++) /* an SSRU has no attention, and it is causal */
        if (tfm__is_ssru(m->decoder.layers[i]) && (o.decoder_attention.data || o.not_causal))
            return tfm__fail(
                err, TFM_E_ARGUMENT,
                "%s: decoder.layers.%d is an SSRU, which is causal and has no attention",
                o.not_causal ? "not_causal" : "decoder_attention", i);
    /* outputs are checked first, because a wrong shape must not change the session */
    shape = tfm_tensor_3d(NULL, TFM_DTYPE_F32, n, T, c->tgt_vocab_size);
    TFM__TRY(tfm__view_like(logits, "logits", shape, &out, err));
    shape = tfm_tensor_4d(NULL, TFM_DTYPE_F32, n, c->n_heads, S, S);
    TFM__TRY(tfm__check_optional(&o.encoder_attention, "encoder_attention",
                                 tfm__tensor_stacked(&shape, c->n_encoder_layers), err));
    shape.dims[2] = shape.dims[3] = T;
    TFM__TRY(tfm__check_optional(&o.decoder_attention, "decoder_attention",
                                 tfm__tensor_stacked(&shape, c->n_decoder_layers), err));
    shape.dims[3] = S;
    shape = tfm__tensor_stacked(&shape, c->n_decoder_layers);
    if (o.alignment_heads)
        shape = tfm_tensor_4d(NULL, TFM_DTYPE_F32, c->n_alignment_heads, n, T, S);
    TFM__TRY(tfm__check_optional(&o.cross_attention, "cross_attention", shape, err));
    if (requests) tfm__session_read_requests(s, requests, n, 0);
    if (!s->encoder.has_keys) tfm__encoder_run(s, 1, &o.encoder_attention);
    s->search.started = 0;
    s->tgt.B = n, s->tgt.L = T, s->tgt.has_holes = 0;
    for (i = 0; i < n; i++)
        tfm__id_row_set(&s->tgt, &side, i, targets[i].data,
                        tfm__unpadded_length(targets[i].data, targets[i].n, side.pad), T);
    for (b0 = 0; b0 < n; b0 += x.B) {
        tfm__rows y = out;
        x = tfm__decoder_run_group(s, b0, &o);
        /* the product writes to the caller's tensor, without a copy of [n, T, V] */
        y.data = tfm__row(&out, b0, 0);
        y.B = x.B;
        TFM__PART(OUTPUT);
        tfm__generator_run(s, &y, &x, &m->generator);
    }
    return TFM_OK;
}

/* Writes the log-probabilities of the targets from row b0 on. x is the decoder's output at their
   positions. */
static void tfm__score_targets(tfm_session *s, const tfm_ids *targets, int64_t b0,
                               const tfm__rows *x, int32_t offset, double *out) {
    const tfm_config *c = &s->model->config;
    int64_t n, V = c->tgt_vocab_size, at, i;
    for (at = offset; at < x->B * x->L;
         at += n) { /* at most as many positions as logits has rows */
        tfm__rows some = tfm__rows_make(x->data + at * x->D, 1, 1, x->D), logits;
        n = some.B = tfm__min(s->max_rows, offset ? x->L - at % x->L : x->B * x->L - at);
        logits = tfm__rows_make(s->step.logits, n, 1, V);
        TFM__PART(OUTPUT);
        tfm__generator_run(s, &logits, &some, &s->model->generator);
        for (i = 0; i < n; i++) {
            int64_t b = b0 + (at + i) / x->L, l = (at + i) % x->L;
            const float *row = s->step.logits + i * V;
            int32_t length = targets[b].n, id = l < length ? targets[b].data[l] : c->end;
            double *to = out + b * x->L + l;
            if (l > length || (l == 0 && length && id == s->search.forced)) *to = 0;
            else {
                float max = s->team.kernels->largest(row, V);
                *to = tfm__logits_log_p(row[id], tfm__logits_log_sum(s->team.kernels, row, max, V));
            }
        }
        if (offset && (at + n) % x->L == 0) at += offset;
    }
}

TFM_DEF tfm_status tfm_session_score(tfm_session *session, const tfm_request *requests, int32_t n,
                                     const tfm_ids *targets, int32_t offset, double *out,
                                     tfm_error *err) {
    tfm_session *s = session;
    const tfm_config *c;
    tfm_forward_options causal;
    tfm__rows x;
    int64_t b0;
    int32_t b, i, T = 0;
    memset(&causal, 0, sizeof causal);
    if (!s || !targets || !out)
        return tfm__fail(err, TFM_E_ARGUMENT, "session, targets or out is NULL");
    c = &s->model->config;
    if (c->end < 0 || (c->start < 0 && !c->start_embedding_zero))
        return TFM__FAIL_CONFIG(err,
                                "'%s' is missing, so targets have no score: set it in the config",
                                c->end < 0 ? "end" : "start");
    TFM__TRY(tfm__requests_check(s, requests, n, requests != NULL, NULL, err));
    TFM__TRY(tfm__id_lists_check(targets, n, c->tgt_vocab_size, "tgt", 0, s->max_target - 1, err));
    for (b = 0; b < n; b++) T = (int32_t)tfm__max(T, targets[b].n);
    if (offset < 0 || offset > T)
        return tfm__fail(err, TFM_E_ARGUMENT,
                         "offset is %d, tgt has %d tokens a row: expected 0 to that", offset, T);
    if (requests) tfm__session_read_requests(s, requests, n, 0);
    if (!s->encoder.has_keys) tfm__encoder_run(s, 1, NULL);
    s->search.started = 0;
    /* the start token, then the target */
    s->tgt.B = n, s->tgt.L = T + 1, s->tgt.has_holes = 0;
    for (b = 0; b < n; b++) {
        int32_t *ids = s->tgt.ids + (int64_t)b * s->tgt.L;
        s->tgt.lengths[b] = targets[b].n + 1;
        for (i = 0; i < s->tgt.L; i++) ids[i] = c->start < 0 ? 0 : c->start;
        for (i = 1; i < s->tgt.lengths[b]; i++) ids[i] = targets[b].data[i - 1];
    }
    memset(s->tgt.pads, 0, (size_t)s->tgt.B * (size_t)s->tgt.L);
    for (b0 = 0; b0 < s->src.B; b0 += x.B) {
        x = tfm__decoder_run_group(s, b0, &causal);
        tfm__score_targets(s, targets, b0, &x, offset, out);
        for (b = (int32_t)b0; b < b0 + x.B; b++)
            for (i = 0; i < offset; i++) out[b * x.L + i] = 0;
    }
    return TFM_OK;
}

#ifndef TRANSFORMER_NO_TEXT

/* >>sentences =====================================================================================
   34. SENTENCES
   Finds where the sentences of a text end, by rules, for languages with and without spaces. The
   language need not be known. Relies on >>utf8.

   A sentence ends
    1. at a blank line, and at the end of the text. A single newline is whitespace like any other.
    2. after a stop that has no other meaning (。！？ ؟ । and so on), unless a comma, a Japanese
       particle, or behind a quotation its speaker follows: 「はい。」と言った。
    3. after ! ? and an ellipsis, if whitespace follows and the next word does not begin in lower
       case (iPhone does not). No sentence ends at the first mark of: "Really?" he asked.
       — Да! — сказал он. Without case, an ellipsis needs a word before it that ends sentences.
    4. after a full stop, if the same holds and the stop does not belong to the word before it. It
       belongs to
        - a number that begins the sentence (1. Open the box), or is before a number (3. 10. 1990)
          or a month (3. Mai), or between an article and a noun (Der 1. FC Köln);
        - single letters, or parts of a few letters with stops between them (J. S. Bach, z. B.,
          p.zza), unless the next word begins sentences and is no name (Vitamin C. It is ...), or a
          number is before a small letter (1799 г. Он; but: В 1799 г. Пушкин писал);
        - an abbreviation in the tables below, or a word without a vowel (Płk. Zieliński);
        - a short word that ends in a consonant and is the first, or the second after an article:
          that is no sentence yet (Esim. Turku, Il geom. Neri), if it is not a word like "Yes";
        - a short word in Thai, Hindi or Bengali, where sentences end otherwise.
   Quotes, brackets and marks of notes that close after a stop belong to the sentence. Those that
   open before the next word belong to the next sentence. In doubt a stop does not end a sentence:
   two sentences that are not split are still translated well, and half a sentence is not.
   ============================================================================================== */

/* ---- tables of words, in small letters. ^: with a capital only ("Min. Vos", but not "5 min."). =:
   without a capital only ---- */

/* clang-format off */
/* Abbreviations that are never the last word of a sentence, in any language that has them. A word
   without a vowel needs no entry. */
static const char tfm__abbreviations[] =
    " ^mrd ^tsd messrs prof ^rev ^hon gen ^col ^maj capt ^cpt ^cmdr ^adm ^gov ^rep ^pres supt"
    " ^brig asst dept ^univ ^assn approx incl excl ^det dipl ing ^mag ^priv ca evtl inkl exkl sog"
    " cit =ev =kath =rer ff geb gest abzgl mio allg insb entspr gem jun ^fam ^fa ^min ^abg ^inh"
    " ^bgm ^abt ^anm einschl usf urspr sen mlle mlles ^me ^ste env boul cie sté ets éts gén ^fg"
    " coll apr sra sres sras srta ^sto ^sta dra dras gral lic arq avda avv av ^ee ud uds dña cía"
    " ^cia depto dpto atte excmo excma exmo exma ilmo ilma mons ^card ^cel ^cap ^des ^dep ^eng tte"
    " cnel profa mtro pbro pza ctra ^pe lgo trav profª sig sigg sigra dott geom egr ^arch ^rag ^on"
    " aprox ^gob pdte mevr bijv resp ^ir ^luit wed evt fil doc =st =fr ^fr inż ul =hab =str =al"
    " =os =im woj pow ^red ^prez ^hab ^mec abp kard por sierż např napr cca nám doç yrd öğr gör"
    " alb yüzb yzb uzm müh örn ^cad ^sok ^bul ^mah özv ifj ^id ^ill ún esim ^tri ^hra vö ^apt rva"
    " nti toim alin conf =dl =dna ^dl ^dna ^см =гр проф акад доц ул вул просп пер наб корп тел"
    " напр ген полк лейт кап инж англ нем лат греч рус им ім =ок зам тов изд див обл госп δηλ κα"
    " καθ αγ οδ λεωφ ταγμ συντ υπ αντιστρ έκδ περ κ.κ प्रो स्व आर एम एन एस एल एफ एच डॉक्ट mr mgr"
    " ^mudr ^judr ^mvdr ^rndr ^phdr ^paeddr ^thdr ^adv insp =ej ^assoc mme fdo ";
/* Words that are abbreviations only if a number follows: No. 5, but: he said no. */
static const char tfm__before_numbers[] =
    " no n° nº nos nr nro nrn num núm núms vol ch chap fig figs sec sect art arts eq ex ed op pt"
    " tab jan feb febr mar apr jun jul aug sep sept oct okt nov dec dez janv févr fév avr juil déc"
    " gen mag giu lug ott dic ene abr mai abs bd bde kap abb str pos ziff anm pag pág págs pagg"
    " cap tomo blz hfst bijl afd kl klo sid puh čís čl odst obr rys poz ust ok godz par pkt alin"
    " séc tel tél telf apt aprox ss об стр рис табл гл ст разд илл ок кв пп σελ αρ άρθρ παρ εικ"
    " πίν κεφ τηλ ιαν φεβ bl mon thurs tues ort буд ";
/* Words that follow an ordinal number: 3. Mai, 19. Jahrhundert. */
static const char tfm__after_ordinals[] =
    " januar februar märz april mai juni juli august september oktober november dezember feb mär"
    " apr jun jul aug sep sept okt nov dez jahrhundert jh weltkrieg auflage kapitel klasse stock"
    " etage liga mal dünya yüzyıl lig bölüm jahrhunderts bundesliga platz ";
/* Words before an ordinal number and a noun, most of them German: Der 1. FC, im 3. Quartal. */
static const char tfm__determiners[] =
    " der die das dem den des am im zum zur vom beim ein eine einem einen einer eines jeder jede"
    " jedes jedem jeden dieser diese dieses sein seine seiner ihr ihre ihrer mein meine unser"
    " unsere kein keine az sultan seinem ihrem ";
/* Articles, and prepositions with articles, of Romance languages and Greek. */
static const char tfm__articles[] =
    " il lo la gli le un una uno el los las del al dello della dell dal dalla nel col sul o os as"
    " do da dos ao na pelo les du des au aux ο η το οι τον την του της στον στην ";
/* Words that begin sentences and are not names: after an initial or "U.S." they begin one. */
static const char tfm__starters[] =
    " the he she it they we you i this that these those there then but and so if when after before"
    " its his her their our what who where why how in on at for from with as to by not is are was"
    " were do does did yes now er sie es wir ich das diese der die den dem ein eine man aber und"
    " doch wenn weil als dann hier jetzt auch nach vor mit im am um zum zur auf aus wo wann kann"
    " ist sind war nein il elle ils vous je tu ce cet et les des pour un une si él yo esto pero en"
    " los las una no mas os não non hij ze wij het een dat maar ona ta ale nie w na po hon och он"
    " она оно они мы вы это но и а если когда потом в на не я ты він ви але και bu ve muss ihr hat"
    " wie wer mein este con por det my wy ele ela vi ";
/* Short words that are sentences of their own, though they look like abbreviations. */
static const char tfm__answers[] =
    " yes yep nope well good cool wait help stop look run right next nein gut doch klar halt toll"
    " los weg raus non bon bien zut sim bem bom não ven goed fijn dank kom tak nej bra tack hej"
    " fint godt igen nem jól нет так вот стоп все evet gel git dur όχι hmm egal aus bald gern fast"
    " kalt voll leer tot still damn soon both lost dead left real mom dad más mal fim chut best"
    " niet leuk snel brak dość там тут сам раз день ночь факт stimmt ";
/* Abbreviations that may end a sentence, and words without a vowel that are none. */
static const char tfm__ends[] =
    " str a.m p.m d.c b.c a.d ph.d m.d b.a m.a b.sc m.sc s.a s.l jr ltd stb hrs yrs lbs hmm kft"
    " zrt pst etc itp osv mv κ.λπ κ.ά κτλ μ.χ т.д т.п н.э т.ч хр prst krk vlk trg smrt krv ";
/* Words as short as abbreviations that end sentences, most of them Hindi. */
static const char tfm__final_words[] = " =u я है हो था थी थे गा गे गी लो दो दी ली ना तो भी जी ";

/* ---- characters ---- */

/* Kinds of characters after those of tfm_character_kind. TFM__TEXT_END: no character follows. */
enum {
    TFM__CASED = TFM_CHARACTER_LOWER | TFM_CHARACTER_UPPER, TFM__TEXT_END = 256,
    TFM__STRONG_STOP = 512, TFM__WEAK_STOP = 1024, TFM__MAY_CLOSE = 2048, TFM__ANGLE = 4096,
    TFM__DASH = 8192, TFM__PARTICLE = 16384, TFM__LOUD_STOP = 32768, TFM__MARK = 65536
};

static int tfm__is_among(const char *characters, uint32_t c) {
    uint32_t member = 0;
    while (*characters && member != c) characters += tfm__utf8_next(characters, 4, &member);
    return member == c;
}

/* Returns the kinds of a character: bits of tfm_character_kind and of the enum above. */
static int32_t tfm__character_kinds(uint32_t c) {
    enum { L = TFM_CHARACTER_LOWER, U = TFM_CHARACTER_UPPER, W = TFM_CHARACTER_WIDE };
    static const struct { uint32_t first, last; int32_t even, odd; } ranges[] = {
        {'A', 'Z', U, U}, {'a', 'z', L, L}, {0xC0, 0xD6, U, U}, {0xD8, 0xDE, U, U},
        {0xDF, 0xF6, L, L}, {0xF8, 0xFF, L, L}, {0x100, 0x138, U, L}, {0x139, 0x148, L, U},
        {0x149, 0x177, U, L}, {0x178, 0x178, U, U}, {0x179, 0x17E, L, U}, {0x1A0, 0x1A5, U, L},
        {0x1AF, 0x1B0, L, U}, {0x1DE, 0x233, U, L}, {0x386, 0x38F, U, U},
        {0x390, 0x390, L, L}, {0x391, 0x3AB, U, U}, {0x3AC, 0x3CE, L, L}, {0x400, 0x42F, U, U},
        {0x430, 0x45F, L, L}, {0x460, 0x481, U, L}, {0x48A, 0x4BF, U, L}, {0x4C0, 0x4C0, U, U},
        {0x4C1, 0x4CE, L, U}, {0x4CF, 0x4CF, L, L}, {0x4D0, 0x52F, U, L}, {0x531, 0x556, U, U},
        {0x561, 0x587, L, L}, {0xE00, 0xEFF, W, W}, {0x1000, 0x109F, W, W}, {0x1780, 0x17FF, W, W},
        {0x1E00, 0x1EFF, U, L}, {0x2E80, 0x312F, W, W}, {0x31A0, 0x9FFF, W, W},
        {0xF900, 0xFAFF, W, W}, {0xFF00, 0xFFEF, W, W}, {0x20000, 0x3FFFF, W, W}};
    static const struct { int32_t kind; const char *characters; } sets[] = {
        {TFM__STRONG_STOP | (int)TFM_CHARACTER_STOP, "。！？｡؟۔।॥։።፧។៕။‼⁇⁈⁉"}, /* rule 2 */
        {TFM__WEAK_STOP | (int)TFM_CHARACTER_STOP, ".!?…"}, /* rules 3 and 4 */
        {TFM__LOUD_STOP, "!?"},
        {TFM_CHARACTER_CLOSING, ")]}”’»›」』）】》〉〕］｝"},
        {TFM__MAY_CLOSE, "\"'“‘«‹"}, /* closes in German, opens in English */
        {TFM__ANGLE, "»›"},          /* closes in French, opens in German */
        {TFM_CHARACTER_OPENING, "([{“‘„‚«‹「『（【《〈〔［｛¿¡\"'"},
        {TFM__DASH, "-–—―•*·»›”’"}, /* may be before the first letter of a sentence */
        {TFM_CHARACTER_COMMA, ",;:%，、；：،؛"},
        {TFM__PARTICLE, "とっなのはがをにでも"}, /* Japanese, after a closing bracket */
        {TFM__MARK, "()[]*†‡¹²³⁰⁴⁵⁶⁷⁸⁹"}};       /* of a note, after a stop */
    /* clang-format on */
    int32_t kinds = tfm__is_space(c) ? TFM_CHARACTER_SPACE : 0;
    size_t i;
    for (i = 0; i < sizeof ranges / sizeof *ranges && c >= ranges[i].first; i++)
        if (c <= ranges[i].last) kinds |= c & 1 ? ranges[i].odd : ranges[i].even;
    if (kinds & (TFM__CASED | (int)TFM_CHARACTER_SPACE) || (c >= 0x3400 && c < 0xA000) ||
        (c >= '0' && c <= '9'))
        return kinds;
    for (i = 0; i < sizeof sets / sizeof *sets; i++)
        if (tfm__is_among(sets[i].characters, c)) kinds |= sets[i].kind;
    return kinds;
}

typedef struct tfm__character {
    uint32_t c; /* U+FFFD for an invalid byte, 0 at the end of the text */
    int32_t kinds;
    size_t end; /* the byte after it */
} tfm__character;

static tfm__character tfm__character_at(const tfm_text *text, size_t at) {
    tfm__character it = {0, TFM__TEXT_END, at};
    if (at >= text->size) return it;
    it.end = at + tfm_character_next(text->data + at, text->size - at, &it.c);
    it.kinds = tfm__character_kinds(it.c);
    return it;
}

TFM_DEF size_t tfm_character_next(const char *text, size_t size, uint32_t *character) {
    int n = tfm__utf8_next(text, size, character);
    if (!n && size) *character = 0xFFFD;
    return n ? (size_t)n : size > 0;
}

TFM_DEF int32_t tfm_character_kinds(uint32_t character) {
    return tfm__character_kinds(character) & (TFM__TEXT_END - 1);
}

/* Returns the begin of the character that ends at byte end, which is not 0. */
static size_t tfm__step_back(const tfm_text *text, size_t end) {
    size_t begin = end - 1;
    while (end - begin < 4 && begin > 0 && tfm__is_inside(text->data, text->size, begin)) begin--;
    return begin;
}

TFM_DEF int tfm_space_after(tfm_text text) {
    uint32_t c;
    while (text.data && text.size > 0) {
        size_t begin = tfm__step_back(&text, text.size), n;
        n = tfm_character_next(text.data + begin, text.size - begin, &c);
        if (tfm__character_kinds(c) & TFM_CHARACTER_WIDE) return 0;
        if (tfm__character_kinds(c) & TFM__CASED || (c >= 0x300 && (c < 0x2000 || c >= 0x2E80)))
            return 1;
        text.size = n == text.size - begin ? begin : text.size - 1;
    }
    return 1;
}

TFM_DEF tfm_text tfm_sentence_space(tfm_text translation, tfm_text between) {
    if (between.size > 1 || (between.size && *between.data != ' ')) return between;
    return tfm_text_make(" ", tfm_space_after(translation) != 0);
}

/* ---- words ---- */

/* Returns a capital's small letter, and any other character as it is. */
static uint32_t tfm__small_letter(uint32_t c) {
    if (!(tfm__character_kinds(c) & TFM_CHARACTER_UPPER)) return c;
    if (c >= 0x386 && c < 0x391)
        return c + (c < 0x388 ? 38 : c < 0x38B ? 37 : c == 0x38C ? 64 : 63);
    if (c >= 0x400 && c < 0x410) return c + 80;
    return c + ((c >= 0x100 && c < 0x234) || c >= 0x460 ? 1 : 32);
}

/* A word, and what it looks like. */
typedef struct tfm__word {
    tfm_text text;
    char key[40];                  /* in small letters, with a space behind; empty if it is long */
    int letters, capitals, vowels; /* of scripts with case; capitals after the first letter */
    int digits, others;            /* others: not letters of these scripts or of Arabic */
    int is_small, is_consonant;    /* the first letter; the last one */
    int stops, longest;            /* stops inside; characters between stops or hyphens, at most */
    int is_roman, is_number;       /* a Roman number; that, or a digit is the first character */
    int is_acronym;                /* capitals only, and more than one */
} tfm__word;

static tfm__word tfm__word_of(tfm_text text) {
    static const char consonants[] =
        "bcdfghjklmnpqrstvwxzçñßćčđďğģķĺľłńňņŕřśšşșťţțźżžβγδζθκλμνξπρστφχψς"
        "бвгджзйклмнпрстфхцчшщьђјљњћџґ";
    tfm__word w;
    tfm__character it;
    size_t i;
    int part = 0;
    char *key = w.key;
    memset(&w, 0, sizeof w);
    w.text = text, w.is_roman = text.size > 0;
    for (i = 0; i < text.size && i < 64; i = it.end) {
        it = tfm__character_at(&text, i);
        w.is_roman &= it.c && it.c < 0x80 && strchr("IVXLC", (int)it.c) != NULL;
        w.stops += it.c == '.';
        part = it.c == '.' || it.c == '-' ? 0 : part + (it.c != 0x640); /* 0x640 only lengthens */
        if (part > w.longest) w.longest = part;
        if (it.kinds & TFM__CASED) {
            w.is_consonant = tfm__is_among(consonants, tfm__small_letter(it.c));
            w.vowels += !w.is_consonant;
            if (w.letters++) w.capitals += (it.kinds & TFM_CHARACTER_UPPER) != 0;
            else w.is_small = (it.kinds & TFM_CHARACTER_LOWER) != 0;
        } else if (it.c >= '0' && it.c <= '9') w.digits++;
        else w.others += part && (it.c < 0x621 || it.c > 0x64A);
        if (key < w.key + sizeof w.key - 6) key = tfm__utf8_put(key, tfm__small_letter(it.c));
    }
    if (text.size && i == text.size && key < w.key + sizeof w.key - 6) memcpy(key, " ", 2);
    else *w.key = 0;
    w.is_number = w.is_roman || (text.size && *text.data >= '0' && *text.data <= '9');
    w.is_acronym = w.letters > 1 && !w.is_small && w.capitals + 1 == w.letters;
    return w;
}

/* Returns whether a table has a word. */
static int tfm__table_has(const char *table, const tfm__word *w) {
    const char *at = table;
    while (*w->key && (at = strstr(at + 1, w->key)) != NULL)
        if (at[-1] == ' ' || at[-1] == (w->is_small ? '=' : '^')) return 1;
    return 0;
}

/* Returns whether one of a table's words is at byte at of a text. */
static int tfm__table_begins(const char *table, const tfm_text *text, size_t at) {
    size_t n;
    for (; *table; table += n) {
        n = strcspn(++table, " ");
        if (text->size - at >= n && memcmp(text->data + at, table, n) == 0) return 1;
    }
    return 0;
}

/* Returns the word at byte at: all up to whitespace or ASCII punctuation. */
static tfm__word tfm__word_at(const tfm_text *text, size_t at) {
    enum { LONGEST = 64 };
    size_t end = at;
    while (end - at < LONGEST) {
        tfm__character it = tfm__character_at(text, end);
        int is_letter = it.kinds & TFM__CASED || it.c >= 0x80 || (it.c >= '0' && it.c <= '9');
        if (!is_letter || it.kinds & TFM_CHARACTER_SPACE) break;
        end = it.end;
    }
    return tfm__word_of(tfm_text_make(text->data + at, end - at));
}

/* A stop and what is around it. */
typedef struct tfm__stop {
    size_t word;         /* begin of the word before the stop */
    size_t begin, close; /* of the stop; several stops in a row are one */
    size_t end;          /* end of the closing quotes and brackets after it */
    int32_t kinds;       /* of the characters of the stop */
    int is_period;       /* a single full stop: rule 4 applies */
    int is_quoted;       /* a quotation mark closes after it */
    int n;               /* words of the sentence before this word */
    tfm_text before[2];  /* the last of them, and the one before it */
} tfm__stop;

/* The words around a stop, for rule 4. */
typedef struct tfm__neighbors {
    tfm__word before, after;
    int n;            /* words of the sentence before the stop's word */
    int has_stop;     /* a stop is behind the word after the stop */
    int starts;       /* that word begins sentences and is no name */
    int number_after; /* it begins with a digit */
} tfm__neighbors;

/* Returns whether a stop belongs to initials: single letters, or a few between stops. */
static int tfm__initials_belong(const tfm__word *w, const tfm__neighbors *by, tfm_text earlier) {
    tfm__word first = tfm__word_of(earlier);
    int is_behind_preposition = by->n == 2 && by->before.is_number && !by->starts &&
                                first.letters <= 2; /* В 1799 г., At 6 p.m. */
    if (by->number_after) return 1;
    if (tfm__table_has(tfm__ends, w)) /* 6 p.m. EST */
        return is_behind_preposition || by->after.is_acronym ||
               tfm__table_has(" monday tuesday wednesday thursday friday saturday sunday ",
                              &by->after);
    if (tfm__table_has(" =т. =av. =apr. ", &by->before)) return 0; /* и т. д., av. J.-C. */
    if (by->before.is_number && w->is_small)                       /* 300 v. Chr. */
        return is_behind_preposition ||
               (by->has_stop && by->after.letters == 3 && !by->after.vowels);
    if (by->n && tfm__table_has(" ^c ^f ", w)) /* 5 C., 20 Grad C. */
        return !(by->before.letters > 3 ? &first : &by->before)->is_number && !by->starts;
    return !by->starts;
}

/* Returns whether a word is an abbreviation by form and place. last: what is behind its ' or -. */
static int tfm__is_abbreviation(const tfm__word *w, const tfm__word *last,
                                const tfm__neighbors *by) {
    tfm__word title = by->before;
    int is_first = !by->n;
    if (last->is_acronym && !by->number_after && !by->after.is_acronym)
        return tfm__table_has(" mm ee ss nn ", last) ||
               (is_first && !last->vowels && last->letters <= 3); /* TS. Nguyễn */
    if (tfm__table_has(tfm__abbreviations, w) || tfm__table_has(tfm__abbreviations, last))
        return !by->starts || (!by->before.is_number && (last->letters > 2 || !last->is_small));
    if (title.stops == 1 && title.text.data[--title.text.size] == '.')
        title = tfm__word_of(title.text);
    else title = tfm__word_of(tfm_text_make(NULL, 0));
    if (last->is_small && last->letters <= 5 && !by->starts &&
        (tfm__table_has(tfm__abbreviations, &title) ||
         (title.letters > 1 && !title.vowels && !title.is_small)))
        return 1;                                               /* Dr. med. */
    if (tfm__table_has(" co ", w)) return by->after.is_acronym; /* & Co. KG */
    if ((by->number_after || (by->after.is_roman && by->after.letters > 1) ||
         (!last->is_small &&
          (tfm__table_has(tfm__after_ordinals, &by->after) ||
           (by->has_stop && tfm__table_has(tfm__before_numbers, &by->after))))) &&
        (tfm__table_has(tfm__before_numbers, last) ||
         (last->letters > 3 && !memcmp(last->text.data + last->text.size - 3, "str", 3))))
        return 1;
    if (last->others + last->digits || last->capitals || last->letters < 2 || last->letters > 5)
        return 0;
    if (by->number_after && by->before.is_number && last->letters <= 3) return 1; /* 5 ft. 6 in. */
    if (by->starts || tfm__table_has(tfm__ends, last)) return 0;
    if (!last->vowels && (by->number_after || !by->before.is_number))
        return !tfm__table_has(" и ", &by->before);                               /* и др. */
    if (!last->is_consonant && (last->vowels > 1 || last->letters < 4)) return 0; /* sgto */
    if (is_first) return last->letters <= 4 && !tfm__table_has(tfm__answers, last);
    return by->n == 1 && (tfm__table_has(tfm__articles, &by->before) ||
                          (tfm__table_has(tfm__determiners, &by->before) && !last->is_small));
}

/* Applies rule 4: returns whether a full stop belongs to its word. next: where the next word is. */
static int tfm__stop_belongs(const tfm_text *text, const tfm__stop *s, size_t next) {
    tfm_text word = tfm_text_make(text->data + s->word, s->begin - s->word);
    tfm__word w = tfm__word_of(word), last;
    tfm__neighbors by;
    size_t at = word.size;
    by.n = s->n, by.before = tfm__word_of(s->before[0]), by.after = tfm__word_at(text, next);
    next += by.after.text.size;
    by.has_stop = next < text->size && text->data[next] == '.';
    /* a starter with a stop of its own is an initial, as "I." is in: J. I. Smith */
    by.starts = !by.has_stop && tfm__table_has(tfm__starters, &by.after);
    by.number_after = by.after.is_number && !by.after.is_roman;
    if (!w.longest || (!by.number_after && tfm__table_has(tfm__final_words, &w))) return 0;
    if (w.digits == w.longest || (w.is_roman && (w.letters > 1 || !s->n))) {
        if (by.number_after || (!s->n && w.digits <= 3)) return 1;
        if (by.starts || w.digits > 3) return 0;
        return tfm__table_has(tfm__determiners, &by.before) ||
               (!w.is_roman && tfm__table_has(tfm__after_ordinals, &by.after)) ||
               (by.before.is_number && by.before.stops && by.after.others); /* 2020. 5. 3. 서울 */
    }
    if (word.size > 1 && *word.data == '\xE0') { /* Thai, Hindi and Bengali */
        size_t longest = word.data[1] >= '\xB8' ? 12 : word.data[1] < '\xA8' ? 6 : 0;
        return w.stops || word.size <= longest || tfm__table_has(tfm__abbreviations, &w);
    }
    if (!w.others && !w.digits && w.longest <= (w.stops ? 3 : 1))
        return tfm__initials_belong(&w, &by, s->before[1]);
    while (at > 0 && word.data[at - 1] != '-' && word.data[at - 1] != '\'' &&
           (at < 3 || memcmp(word.data + at - 3, "’", 3) != 0)) /* l’art. 5 */
        at--;
    last = tfm__word_of(tfm_text_make(word.data + at, word.size - at));
    return tfm__is_abbreviation(&w, &last, &by);
}

/* ---- sentences ---- */

/* Returns the end of the whitespace at byte at. *newlines is 0, 1, or 2 for a blank line. */
static size_t tfm__space_end(const tfm_text *text, size_t at, int *newlines) {
    tfm__character it;
    for (*newlines = 0; (it = tfm__character_at(text, at)).kinds & TFM_CHARACTER_SPACE; at = it.end)
        if (it.c == 0x2029 || (it.c == '\n' && *newlines < 2))
            *newlines = it.c == '\n' ? *newlines + 1 : 2; /* U+2029 separates paragraphs */
    return at;
}

/* Returns the end of marks of notes at byte at (*, ¹, [1], (1)), or at if a letter follows them. */
static size_t tfm__marks_end(const tfm_text *text, size_t at) {
    tfm__character it = tfm__character_at(text, at), last = it;
    size_t end = at;
    while (it.kinds & TFM__MARK || (end > at && it.c >= '0' && it.c <= '9'))
        last = it, end = it.end, it = tfm__character_at(text, end);
    return (last.c < '0' || last.c > '9') && it.kinds & (TFM__TEXT_END | (int)TFM_CHARACTER_SPACE |
                                                         TFM_CHARACTER_WIDE | TFM_CHARACTER_CLOSING)
               ? end
               : at;
}

/* Returns the end of the closing quotes, brackets and marks at byte at. in_quotes: one more "
   closes. *is_quoted: whether a quotation mark is among them. */
static size_t tfm__closing_end(const tfm_text *text, size_t at, int in_quotes, int *is_quoted) {
    tfm__character it, next;
    int newlines;
    for (*is_quoted = 0;; at = it.end) {
        at = tfm__marks_end(text, at);
        it = tfm__character_at(text, at);
        next = tfm__character_at(text, it.end);
        if (it.c == '"' && in_quotes) {
            in_quotes = 0;
        } else if (it.kinds & TFM__MAY_CLOSE) {
            if (!(next.kinds & (TFM__TEXT_END | (int)TFM_CHARACTER_SPACE | TFM_CHARACTER_CLOSING)))
                return at;
        } else if (it.kinds & TFM_CHARACTER_SPACE) { /* « Non ! » has a space, »Ja« has none */
            it = tfm__character_at(text, tfm__space_end(text, at, &newlines));
            next = tfm__character_at(text, it.end);
            if (newlines || !(it.kinds & TFM__ANGLE) ||
                (next.c != '.' &&
                 !(next.kinds & (TFM__TEXT_END | (int)TFM_CHARACTER_SPACE | TFM_CHARACTER_COMMA))))
                return at;
        } else if (!(it.kinds & TFM_CHARACTER_CLOSING)) return at;
        *is_quoted |= !tfm__is_among(")]}）］】〕", it.c);
    }
}

/* Returns whether a Chinese quotation goes on with its speaker, or with what happened then: 「...」
   她說。“...”就走了。 */
static int tfm__speaker_follows(const tfm_text *text, size_t at) {
    enum { LONGEST = 8 }; /* characters up to the verb */
    int i, said = 0;
    if (tfm__table_begins(" 就 便 又 然后 然後 接着 接著", text, at)) return 1;
    for (i = 0; i < LONGEST; i++) {
        tfm__character it = tfm__character_at(text, at);
        if (it.c == 0xFF0C || it.kinds & (TFM__TEXT_END | (int)TFM_CHARACTER_STOP)) return said;
        if (!(it.kinds & TFM_CHARACTER_WIDE) || tfm__is_among("，：；、没沒不", it.c)) return 0;
        said = tfm__is_among("说說道问問喊叫答", it.c) || (said && tfm__is_among("着著", it.c));
        at = it.end;
    }
    return 0;
}

/* Returns whether a sentence ends at a stop between letters without case. it: the character behind
   it, at byte at. */
static int tfm__stop_ends_without_case(const tfm_text *text, const tfm__stop *s,
                                       const tfm__character *it, size_t at) {
    int is_particle =
        it->kinds & TFM__PARTICLE && /* these begin sentences: */
        !tfm__table_begins(
            " でも はい もう もし とても とにかく ところ なぜ なに なん もっと はじめ", text, at);
    uint32_t c = tfm__character_at(text, it->end).c;
    if (it->kinds & (TFM_CHARACTER_COMMA | TFM_CHARACTER_STOP)) return 0;
    if (s->kinds & TFM__STRONG_STOP && s->is_quoted &&
        (memcmp(text->data + s->end - 3, "》", 3) == 0 || tfm__speaker_follows(text, at)))
        return 0;
    if (s->kinds & TFM__STRONG_STOP && s->end == s->close) /* モーニング娘。の歌 */
        return !is_particle || c < 0x4E00 || c >= 0xA000;
    if (s->kinds & (TFM__STRONG_STOP | TFM__LOUD_STOP)) return !is_particle;
    if (s->begin) (void)tfm_character_next(text->data + tfm__step_back(text, s->begin), 4, &c);
    return !is_particle && tfm__is_among("了吧呢吗嗎啊呀啦よねだたるいてす다요까죠", c);
}

/* Applies rules 2 to 4: returns whether the sentence ends at a stop. */
static int tfm__stop_ends(const tfm_text *text, const tfm__stop *s) {
    tfm__character it = tfm__character_at(text, s->end);
    tfm__word next;
    size_t at;
    int newlines;
    if (it.kinds & TFM__TEXT_END) return 1;
    if (s->kinds & TFM__STRONG_STOP) return tfm__stop_ends_without_case(text, s, &it, s->end);
    if (!(it.kinds & TFM_CHARACTER_SPACE)) /* 你好!我来了 */
        return it.kinds & TFM_CHARACTER_WIDE && !s->is_period &&
               tfm__stop_ends_without_case(text, s, &it, s->end);
    at = tfm__space_end(text, s->end, &newlines);
    if (newlines >= 2) return 1;
    while ((it = tfm__character_at(text, at)).kinds & /* to the first letter or digit */
           (TFM_CHARACTER_SPACE | TFM_CHARACTER_OPENING | TFM__DASH))
        at = it.end;
    if (it.kinds & TFM__TEXT_END) return 1;
    if (it.kinds & (TFM_CHARACTER_COMMA | TFM_CHARACTER_CLOSING | TFM__WEAK_STOP)) return 0;
    next = tfm__word_at(text, at);
    if (it.kinds & TFM_CHARACTER_LOWER && (!next.capitals || next.others)) return 0; /* iPhone */
    if (!s->is_period && !(s->kinds & TFM__LOUD_STOP) && it.c >= 0x590 && !(it.kinds & TFM__CASED))
        return tfm__stop_ends_without_case(text, s, &it, at);
    if (s->is_quoted && tfm__table_has(" 라고 하고 라며 하며 라는 이라고 라면서 하면서 ", &next))
        return 0; /* Korean, as in 2 */
    /* a stop inside a closing quote ends the sentence; inside a bracket it may not: (etc.) */
    return !s->is_period || s->is_quoted || !tfm__stop_belongs(text, s, at);
}

/* Returns whether a Thai sentence ends at whitespace, bytes at to next: behind a polite word. */
static int tfm__thai_ends(const tfm_text *text, size_t at, size_t next) {
    uint32_t c = at < 12 ? 0 : tfm__character_at(text, next).c;
    return c >= 0xE00 && c < 0xE80 &&
           (tfm__table_begins(" ครับ", text, at - 12) || tfm__table_begins(" ค่ะ", text, at - 9) ||
            tfm__table_begins(" คะ", text, at - 6));
}

TFM_DEF int tfm_sentence_next(tfm_text text, size_t *at, tfm_text *sentence) {
    int newlines, in_quotes = 0, is_greek = 0;
    size_t begin, i, end, next;
    tfm__character it;
    tfm__stop s;
    if (!at || !sentence || !text.data) return 0;
    memset(&s, 0, sizeof s);
    s.word = i = end = begin = *at = tfm__space_end(&text, *at, &newlines);
    if (begin >= text.size) return 0;
    while (i < text.size) {
        it = tfm__character_at(&text, i);
        if (it.kinds & TFM_CHARACTER_SPACE) {
            next = tfm__space_end(&text, i, &newlines);
            if (newlines >= 2 || tfm__thai_ends(&text, i, next)) break;
            s.before[1] = s.before[0], s.n++;
            s.before[0] = tfm_text_make(text.data + s.word, i - s.word);
            s.word = i = next;
            continue;
        }
        /* The Greek question mark looks like a semicolon. */
        if ((it.c == ';' || it.c == 0x37E) && is_greek)
            it.kinds = TFM__WEAK_STOP | TFM__LOUD_STOP | (int)TFM_CHARACTER_STOP;
        is_greek = it.c >= 0x370 && it.c < 0x400;
        s.begin = i, s.kinds = s.is_period = 0;
        for (; it.kinds & TFM_CHARACTER_STOP; i = it.end, it = tfm__character_at(&text, i)) {
            s.kinds |= it.kinds;
            s.is_period = it.c == '.' && i == s.begin;
        }
        if (i == s.begin) {
            if (it.c == '"') in_quotes = !in_quotes;
            /* a word begins after an opening mark; an apostrophe is one only before the word */
            if (it.kinds & TFM_CHARACTER_OPENING && (it.c != '\'' || i == s.word)) s.word = it.end;
            end = i = it.end;
            continue;
        }
        s.close = i;
        s.end = end = tfm__closing_end(&text, i, in_quotes, &s.is_quoted);
        if (tfm__stop_ends(&text, &s)) break;
        for (; i < s.end; i++)
            if (text.data[i] == '"') in_quotes = !in_quotes;
    }
    TFM__COUNT_TEXT(end - begin);
    *sentence = tfm_text_make(text.data + begin, end - begin);
    *at = end;
    return 1;
}

/* >>text ==========================================================================================
   35. TEXT IN, TEXT OUT
   The public functions that turn a text into a translation with a session. Relies on >>search, and
   on >>sentences.
   ============================================================================================== */

TFM_DEF tfm_status tfm_languages_set(tfm_session *session, const char *source, const char *target,
                                     tfm_error *err) {
    const tfm_config *c;
    int32_t from = -1, into = -1;
    if (!session) return tfm__fail(err, TFM_E_ARGUMENT, "session is NULL");
    c = &session->model->config;
    if (source) TFM__TRY(tfm__find_language(c, source, strlen(source), &from, err));
    if (target) TFM__TRY(tfm__find_language(c, target, strlen(target), &into, err));
    if (!source && c->src_language == TFM_LANGUAGE_USE_SOURCE)
        return tfm__fail(err, TFM_E_ARGUMENT, "source: the model needs its language, such as %s",
                         c->languages[0].code);
    if (!target && (c->src_language == TFM_LANGUAGE_USE_TARGET || c->tgt_language_forced))
        return tfm__fail(err, TFM_E_ARGUMENT, "target: the model needs its language, such as %s",
                         c->languages[0].code);
    if (c->src_language)
        session->text.language = c->src_language == TFM_LANGUAGE_USE_SOURCE ? from : into;
    if (c->tgt_language_forced) session->search.forced = into;
    return TFM_OK;
}

TFM_DEF tfm_status tfm_session_tokenize(tfm_session *session, const tfm_text *source,
                                        tfm_text_form form, tfm_tokens *tokens, tfm_error *err) {
    tfm__ids out;
    if (!session || !source || !tokens)
        return tfm__fail(err, TFM_E_ARGUMENT, "session, text or tokens is NULL");
    memset(&out, 0, sizeof out);
    out.ids = tokens->ids, out.spans = tokens->spans, out.capacity = tokens->capacity;
    out.count = &tokens->n, out.language = session->text.language;
    if (tokens->truncate) out.left_out = &tokens->left_out;
    return tfm__session_tokenize(session, source, form, &out, err);
}

TFM_DEF tfm_status tfm_result_text(tfm_session *session, int32_t request, int32_t rank,
                                   tfm_text_form form, char *text, size_t capacity, size_t *size,
                                   tfm_error *err) {
    tfm_result result;
    tfm__target_ids target;
    if (!size || (!text && capacity)) return tfm__fail(err, TFM_E_ARGUMENT, "text or size is NULL");
    TFM__TRY(tfm_result_get(session, request, rank, &result, err));
    target.ids = result.ids;
    target.n = result.length;
    target.form = form;
    if (form == TFM_TEXT_FORM_TEXT && session->decode.keep_end && result.finish == TFM_FINISH_ENDED)
        target.n--; /* an end token that was kept gives no text, whatever its spelling */
    target.runs = result.finish == TFM_FINISH_RUNNING;
    return tfm__join_text_of(&session->model->target, &target, text, capacity, size, err);
}

/* ---- texts of several sentences ---- */

/* Steps through the sentences of a request's text. */
typedef struct tfm__splitter {
    tfm_request request; /* as it was given, but with the text of the sentence */
    tfm_text text;       /* of the request, without a label before it */
    size_t offset, at;   /* bytes of the label; in text: the end of `ahead` */
    tfm_text ahead;      /* the next sentence */
    tfm_text between;    /* white space between the sentence and the one before it */
    int64_t number;      /* of the sentence, counted from 1; 0: the request is not split */
    int is_split, is_last;
} tfm__splitter;

/* Begins with a request. Only a text of several sentences is split, without a prefix and a draft,
   which belong to one target. A label before the text becomes the language of all sentences. A text
   with an error is not split: the function that tokenizes it reports the error. */
static void tfm__splitter_begin(tfm__splitter *p, const tfm_model *m, tfm_sentences how,
                                const tfm_request *r) {
    const tfm_config *c = &m->config;
    int32_t language = -1, i;
    tfm_text second;
    size_t at = 0;
    memset(p, 0, sizeof *p);
    p->request = *r, p->text = r->text;
    if (how != TFM_SENTENCES_SPLIT || !c->has_text || !r->text.data || r->ids.data || r->ids.n ||
        r->embeddings || r->memory || r->prefix.n || r->draft.n ||
        tfm__check_text(&r->text, "text", NULL) != TFM_OK ||
        tfm__take_language(c, &p->text, &language, NULL) != TFM_OK ||
        !tfm_sentence_next(p->text, &at, &p->ahead))
        return;
    p->at = at;
    if (!tfm_sentence_next(p->text, &at, &second)) return;
    p->is_split = 1, p->offset = r->text.size - p->text.size;
    for (i = 0; i < c->n_languages && language >= 0; i++)
        if (c->languages[i].id == language) p->request.target_language = c->languages[i].code;
}

/* Steps to the next sentence. Once is_last is set there is none, so the caller must stop. */
static void tfm__splitter_next(tfm__splitter *p) {
    const char *end = p->number ? p->request.text.data + p->request.text.size : p->ahead.data;
    p->is_last = 1;
    if (!p->is_split) return;
    p->number++;
    p->between = tfm_text_make(end, (size_t)(p->ahead.data - end));
    p->request.text = p->ahead;
    p->is_last = !tfm_sentence_next(p->text, &p->at, &p->ahead);
}

/* Returns what goes between the translation so far, out [used], and that of the next sentence. */
static tfm_text tfm__sentence_between(const char *out, size_t used, tfm_text between) {
    enum { LOOK_BACK = 1024 }; /* bounds the time */
    size_t seen = (size_t)tfm__min((int64_t)used, LOOK_BACK);
    if (!seen) return tfm_text_make(between.data, 0);
    return tfm_sentence_space(tfm_text_make(out + used - seen, seen), between);
}

/* A text in encoder.memory: this, and then the terminated text. Translations of several sentences
   are collected there: the decoder reads keys and values, so nothing needs the encoder's output. */
typedef struct tfm__kept {
    size_t size;
    tfm_status status; /* of the request; if it failed, the text is the message */
} tfm__kept;

/* Returns the text that is kept for request i. */
static const char *tfm__kept_text(const tfm_session *s, int32_t i, tfm__kept *kept) {
    const char *at = (const char *)s->encoder.memory;
    for (memcpy(kept, at, sizeof *kept); i > 0; i--) {
        at += sizeof *kept + kept->size + 1;
        memcpy(kept, at, sizeof *kept);
    }
    return at + sizeof *kept;
}

/* Checks that the texts that are kept, `used` bytes, can become as much longer. */
static tfm_status tfm__kept_check(const tfm_session *s, size_t used, size_t more, tfm_error *err) {
    int64_t room = 4 * (int64_t)s->max_batch * s->max_source * s->model->config.d_memory;
    if (tfm__more(used, more) <= (size_t)room) return TFM_OK;
    return tfm__fail(err, TFM_E_TOO_LONG,
                     "the translation takes more than the session's room of %i bytes for it: "
                     "raise max_source, or use a translator",
                     room);
}

/* Appends the translation of row i to the text that is kept from byte begin to *used - 1. */
static tfm_status tfm__kept_append(tfm_session *s, int32_t i, tfm_text between, size_t begin,
                                   size_t *used, tfm_error *err) {
    char *out = (char *)s->encoder.memory;
    size_t size = 0;
    TFM__TRY(tfm_result_text(s, i, 0, TFM_TEXT_FORM_TEXT, NULL, 0, &size, err));
    if (!size) return TFM_OK;
    between = tfm__sentence_between(out + begin, *used - begin, between);
    TFM__TRY(tfm__kept_check(s, *used, tfm__more(tfm__more(between.size, size), 1), err));
    if (between.size) memcpy(out + *used, between.data, between.size);
    *used += between.size;
    TFM__TRY(tfm_result_text(s, i, 0, TFM_TEXT_FORM_TEXT, out + *used, size + 1, &size, err));
    *used += size;
    return TFM_OK;
}

TFM_DEF size_t tfm_translation_size(tfm_session *session) {
    size_t needed = 0, size = 0;
    int32_t i, joined = session ? session->text.joined : 0;
    tfm__kept kept;
    for (i = 0; i < joined; i++) {
        (void)tfm__kept_text(session, i, &kept);
        needed = tfm__more(needed, (kept.status == TFM_OK ? kept.size : 0) + 1);
    }
    for (i = 0; session && !joined && session->search.started && i < session->src.B; i++) {
        needed = tfm__more(needed, 1);
        if (tfm_result_text(session, i, 0, TFM_TEXT_FORM_TEXT, NULL, 0, &size, NULL)) return 0;
        needed = tfm__more(needed, size);
    }
    return needed;
}

/* Sums all sizes before it writes, so a buffer that is too small stays as it was. */
TFM_DEF tfm_status tfm_translation_get(tfm_session *session, tfm_text *out, char *buffer,
                                       size_t capacity, tfm_error *err) {
    size_t needed = tfm_translation_size(session), at = 0;
    int32_t i, n;
    if (!session || !buffer) return tfm__fail(err, TFM_E_ARGUMENT, "session or buffer is NULL");
    if (!needed)
        return tfm__fail(err, TFM_E_STATE,
                         "the session has no translations: call tfm_translate_batch first");
    if (needed > capacity)
        return tfm__fail(err, TFM_E_TOO_SMALL, "the translation takes %i bytes, the buffer has %i",
                         (int64_t)needed, (int64_t)capacity);
    n = session->text.joined ? session->text.joined : session->src.B;
    for (i = 0; i < n; i++) {
        size_t size = 0;
        if (session->text.joined) {
            tfm__kept kept;
            const char *text = tfm__kept_text(session, i, &kept);
            if (kept.status == TFM_OK) memcpy(buffer + at, text, size = kept.size);
        } else
            TFM__TRY(tfm_result_text(session, i, 0, TFM_TEXT_FORM_TEXT, buffer + at, capacity - at,
                                     &size, err));
        buffer[at + size] = 0;
        if (out) out[i] = tfm_text_make(buffer + at, size);
        at += size + 1;
    }
    return TFM_OK;
}

/* Writes why a sentence failed, and where it is. */
static tfm_status tfm__splitter_fail(const tfm__splitter *p, tfm_status status, const char *message,
                                     tfm_error *err) {
    return !p->number
               ? tfm__fail(err, status, "%m", message)
               : tfm__fail(err, status, "sentence %i, at byte %i of the text: %m", p->number,
                           (int64_t)p->offset + (p->request.text.data - p->text.data), message);
}

/* Where a call is that translates texts of several sentences. */
typedef struct tfm__joining {
    const tfm_request *requests;
    int32_t n, i;      /* requests; the one whose text is kept last */
    int skip_errors;   /* as in the options */
    size_t head, used; /* where that text begins, with its tfm__kept; end of all texts */
    tfm_error why;     /* of that request */
} tfm__joining;

/* Adds row `row` of a batch, a sentence, to the texts that are kept. */
static tfm_status tfm__joining_add(tfm_session *s, tfm__joining *j, int32_t row,
                                   const tfm__splitter *at, tfm_error *err) {
    char *out = (char *)s->encoder.memory;
    tfm_result result;
    tfm__kept kept;
    TFM__TRY(tfm_result_get(s, row, 0, &result, err));
    if (at->number <= 1) {
        TFM__TRY(tfm__kept_check(s, j->used, sizeof kept + 1, err));
        j->head = j->used, j->used += sizeof kept, j->why.status = TFM_OK;
    }
    if (result.status != TFM_OK && j->why.status == TFM_OK)
        (void)tfm__splitter_fail(at, result.status, result.message, &j->why);
    if (j->why.status == TFM_OK)
        TFM__TRY(tfm__kept_append(s, row, at->between, j->head + sizeof kept, &j->used, err));
    else if (!j->skip_errors && j->n > 1)
        return tfm__fail(err, j->why.status, "request %d: %m", j->i, j->why.text);
    else if (!j->skip_errors) return tfm__fail(err, j->why.status, "%m", j->why.text);
    if (!at->is_last) return TFM_OK;
    kept.size = j->used - j->head - sizeof kept, kept.status = j->why.status;
    if (kept.status != TFM_OK) {
        kept.size = strlen(j->why.text);
        while (tfm__kept_check(s, j->head, sizeof kept + kept.size + 1, NULL)) kept.size--;
        memcpy(out + j->head + sizeof kept, j->why.text, kept.size);
    }
    memcpy(out + j->head, &kept, sizeof kept);
    j->used = j->head + sizeof kept + kept.size;
    out[j->used++] = 0;
    j->i++;
    return TFM_OK;
}

/* Translates requests, batch after batch of their sentences, into encoder.memory. */
static tfm_status tfm__joining_run(tfm_session *s, tfm__joining *j, const tfm_decode_options *o,
                                   tfm_error *err) {
    enum { MOST = 32 }; /* sentences of a batch, to bound the stack */
    tfm__splitter from, at[MOST];
    tfm_request rows[MOST];
    int32_t n, row, next = 0, running;
    for (from.is_last = 1;;) {
        for (n = 0; n < tfm__min(s->max_batch, MOST); n++) {
            if (from.is_last && next == j->n) break;
            if (from.is_last)
                tfm__splitter_begin(&from, s->model, s->text.sentences, &j->requests[next++]);
            tfm__splitter_next(&from);
            at[n] = from, rows[n] = from.request;
        }
        if (!n) return TFM_OK;
        TFM__TRY(tfm__session_begin(s, rows, n, 1, o, err));
        do TFM__TRY(tfm_session_step(s, &running, err));
        while (running);
        for (row = 0; row < n; row++) TFM__TRY(tfm__joining_add(s, j, row, &at[row], err));
    }
}

/* Leaves the results of kept texts: under skip_errors status and message of each, else none. */
static void tfm__joining_end(tfm_session *s, const tfm__joining *j) {
    int32_t i;
    tfm__kept kept;
    s->text.joined = j->n;
    s->src.B = j->skip_errors ? j->n : 0, s->src.L = 1;
    s->search.started = s->src.B > 0;
    s->encoder.has_keys = s->src.has_holes = s->search.n_running = 0;
    for (i = 0; i < s->src.B; i++) {
        const char *text = tfm__kept_text(s, i, &kept);
        s->src.lengths[i] = 0; /* nothing is decoded further */
        s->search.sentences[i].status = kept.status;
        if (kept.status != TFM_OK)
            tfm__format(
                (char *)tfm__result_ids(s, i, 0),
                (size_t)tfm__min(sizeof j->why.text, 4 * (int64_t)s->max_beam * s->max_target),
                "%m", text);
    }
}

TFM_DEF tfm_status tfm_translate_batch(tfm_session *session, const tfm_request *requests, int32_t n,
                                       const tfm_decode_options *options, tfm_text *out,
                                       char *buffer, size_t capacity, tfm_error *err) {
    tfm_session *s = session;
    tfm_decode_options o;
    tfm__splitter from;
    tfm__joining j;
    tfm_status status;
    int32_t i;
    if (!s || !requests || !out || !buffer || n < 0)
        return tfm__fail(err, TFM_E_ARGUMENT,
                         "session, requests, out or buffer is NULL, or n is negative");
    if (!s->model->config.has_text)
        return tfm__fail(err, TFM_E_NO_TEXT,
                         "the model has no vocabularies: use ids, or convert it with them");
    if (!n) return TFM_OK;
    for (i = 0, from.is_split = 0; i < n && !from.is_split; i++)
        tfm__splitter_begin(&from, s->model, s->text.sentences, &requests[i]);
    if (!from.is_split || n > s->max_batch) {
        TFM__TRY(tfm_session_decode(s, requests, n, options, err));
        return tfm_translation_get(s, out, buffer, capacity, err);
    }
    memset(&o, 0, sizeof o), memset(&j, 0, sizeof j);
    if (!options) options = s->decoding_of;
    if (options) o = *options;
    j.requests = requests, j.n = n, j.skip_errors = o.skip_errors != 0;
    o.skip_errors = 1;
    s->encoder.is_lent = 1, s->text.joined = 0;
    status = tfm__joining_run(s, &j, &o, err);
    s->encoder.is_lent = 0;
    if (status != TFM_OK) j.n = 0;
    tfm__joining_end(s, &j);
    return status == TFM_OK ? tfm_translation_get(s, out, buffer, capacity, err) : status;
}

TFM_DEF tfm_status tfm_translate(tfm_session *session, const char *text, char *out, size_t capacity,
                                 tfm_error *err) {
    tfm_request request;
    tfm_text translated;
    if (!session || !text || !out)
        return tfm__fail(err, TFM_E_ARGUMENT, "session, text or out is NULL");
    request = tfm_request_text(text, strlen(text));
    return tfm_translate_batch(session, &request, 1, NULL, &translated, out, capacity, err);
}

/* >>translator ====================================================================================
   36. TRANSLATORS
   The calling thread cuts texts into sentences and fills a window with them. The sentences of a
   window are sorted by length and divided into jobs, which workers take: threads with a session
   each. A window that is alone and has one job is done by the calling thread, whose session shares
   its work among as many threads. When all jobs of the oldest window are done, its sentences are
   joined in the order of the input. There are a few windows, so memory is bounded for any input.
   Relies on sessions, on the search, and on the splitter of >>text.
   ============================================================================================== */

enum {
    TFM__WINDOWS = 4,
    TFM__WINDOW_BATCHES = 16,    /* the most batches of sentences in a window */
    TFM__WINDOW_BYTES = 1 << 22, /* a window with as many bytes of sentences takes no more */
    TFM__DRAFT = 8               /* tokens of a draft that a step verifies */
};

/* Bytes that grow. */
typedef struct tfm__buffer {
    char *data;
    size_t size, room;
} tfm__buffer;

/* A sentence on its way. */
typedef struct tfm__item {
    tfm__splitter at;
    tfm_text whole;   /* the text of its request */
    int64_t length;   /* in bytes until it is tokenized, then in tokens */
    size_t first_id;  /* of a text: its ids in the worker's buffer */
    int is_text;      /* not ids or vectors */
    int32_t left_out; /* tokens that were not read */
    int32_t tokens;   /* of the translation */
    int is_cut;
    tfm_status status;
    tfm__buffer out; /* the translation or the message, terminated */
} tfm__item;

typedef struct tfm__window {
    tfm__buffer items, sorted; /* of tfm__item, and of pointers to them */
    int64_t n, job_items;
    int64_t next, left; /* the job that is taken next; jobs that are not done */
} tfm__window;

typedef struct tfm__worker {
    struct tfm_translator *of;
    tfm_session *session;
    tfm_allocator allocator; /* of the session: it gives the block */
    tfm__buffer block;       /* stays when the session is freed, and saves the system's new pages */
    tfm__buffer ids, scratch, requests;
    tfm_error err;
#ifdef TFM__THREADS
    tfm__thread thread;
#endif
} tfm__worker;

struct tfm_translator {
    const tfm_model *model;
    tfm_allocator allocator;
    size_t held, peak; /* bytes */
    tfm_decode_options decode;
    tfm_session_options limits; /* what all sessions have in common */
    tfm_sentences sentences;
    int32_t language, forced; /* tokens of the languages, as in tfm_session */
    int32_t threads, max_batch, max_source;
    size_t share;       /* bytes that a session may take; 0: what it needs */
    size_t batch_bytes; /* bytes that a session of several sentences may take */
    tfm__worker workers[1 + TFM__MOST_THREADS]; /* 0: the calling thread */
    struct {                                    /* where a run gets its requests */
        tfm_translator_next next;               /* NULL: they are in the array list to end */
        const tfm_request *list, *end;          /* those of the array that are left */
        tfm_text whole;                         /* the text whose sentences fill windows */
        tfm__splitter at;                       /* the place in this text */
        int more;                               /* what next returned; 0: the input has ended */
    } input;
    tfm__window windows[TFM__WINDOWS];
    tfm_translator_done done;
    void *user;
    tfm_translated result;    /* of the text whose sentences are being joined */
    tfm_error failure;        /* why its first sentence that failed did so */
    tfm__buffer joined;       /* its translation so far */
    uint64_t given, finished; /* windows of this run that workers got, and that were joined */
    int is_busy, is_stopped;  /* a thread calls next or done; done has ended the run */
    int32_t n_started;        /* threads */
#ifdef TFM__THREADS
    int is_closed;
    tfm__mutex mutex; /* of held, peak, and what changes in windows after they are given */
    tfm__condition changed;
#endif
};

#ifdef TFM__THREADS
static void tfm__lock(tfm_translator *t) { tfm__mutex_lock(&t->mutex); }
static void tfm__unlock(tfm_translator *t) { tfm__mutex_unlock(&t->mutex); }
static void tfm__await(tfm_translator *t) { tfm__condition_wait(&t->changed, &t->mutex); }
static void tfm__changed(tfm_translator *t) { tfm__condition_wake_all(&t->changed); }
#else
static void tfm__lock(tfm_translator *t) { (void)t; }
static void tfm__unlock(tfm_translator *t) { (void)t; }
static void tfm__await(tfm_translator *t) { (void)t; }
static void tfm__changed(tfm_translator *t) { (void)t; }
#endif

/* ---- memory ---- */

static void tfm__buffer_free(tfm_translator *t, tfm__buffer *b) {
    if (b->data) {
        tfm__lock(t);
        t->allocator.release(t->allocator.user, b->data);
        t->held -= b->room;
        tfm__unlock(t);
    }
    memset(b, 0, sizeof *b);
}

/* Makes room for as many bytes, and keeps those that are there. */
static tfm_status tfm__buffer_reserve(tfm_translator *t, tfm__buffer *b, size_t room,
                                      tfm_error *err) {
    tfm__buffer larger = *b;
    void *data = NULL;
    tfm_status status;
    if (room <= b->room) return TFM_OK;
    if (room < 2 * b->room) room = 2 * b->room;
    tfm__lock(t);
    status = tfm__allocate(&t->allocator, (int64_t)room, &data, err);
    if (status == TFM_OK) t->held += room;
    if (t->peak < t->held) t->peak = t->held;
    tfm__unlock(t);
    if (status != TFM_OK) return status;
    if (b->size) memcpy(data, b->data, b->size);
    tfm__buffer_free(t, b);
    larger.data = (char *)data, larger.room = room;
    *b = larger;
    return TFM_OK;
}

static tfm_status tfm__buffer_append(tfm_translator *t, tfm__buffer *b, const char *data,
                                     size_t size, tfm_error *err) {
    TFM__TRY(tfm__buffer_reserve(t, b, tfm__more(b->size, size), err));
    if (size) memcpy(b->data + b->size, data, size);
    b->size += size;
    return TFM_OK;
}

/* Gives a worker's session its block. That of a very long sentence stays for similar ones only. */
static void *tfm__block_allocate(void *user, size_t bytes) {
    tfm__worker *w = (tfm__worker *)user;
    tfm__buffer *b = &w->block;
    if (bytes > b->room || (b->room > w->of->batch_bytes && bytes <= b->room / 2)) {
        tfm__buffer_free(w->of, b);
        if (tfm__buffer_reserve(w->of, b, bytes, NULL) != TFM_OK) return NULL;
    }
    return b->data;
}
static void tfm__block_release(void *user, void *block) { (void)user, (void)block; }

/* Returns how many bytes a session of several sentences may take. A step of a batch reads the
   decoder's weights once, and the keys and values of all its sentences. Many sentences are faster
   than few as long as the weights are the larger part and come from memory: the cache of a CPU has
   room for about 8 million. More than 64 sentences get the memory of 64 for each 64. */
static size_t tfm__batch_bytes(const tfm_config *c, int32_t max_batch) {
    const double least = 16e6, cached = 8e6, per_weight = 8, d = c->d_model;
    double weights = d * ((double)c->src_vocab_size + c->tgt_vocab_size) / 2 +
                     c->n_encoder_layers * d * (4 * d + 2 * (double)c->d_ff) +
                     c->n_decoder_layers * d * (8 * d + 2 * (double)c->d_ff_decoder);
    double bytes = least + (weights > cached ? per_weight * (weights - cached) : 0);
    if (max_batch > 64) bytes *= max_batch / 64;
    return bytes < (double)(SIZE_MAX / 2) ? (size_t)bytes : SIZE_MAX / 2;
}

/* ---- a job: sentences of similar length ---- */

/* What a batch needs of a session. more: target tokens beside those that the source allows. */
typedef struct tfm__need {
    int64_t source, more;
    int has_drafts;
} tfm__need;

/* Returns how many target tokens a session must have room for: never what ends a sentence, because
   the translation would depend on the batch. */
static int32_t tfm__need_target(const tfm_translator *t, int64_t source, int64_t more) {
    int64_t most = t->model->config.max_target_positions, target = t->decode.max_length;
    if (!target) target = tfm__usual_length(source);
    target = tfm__max(target, (int64_t)t->decode.min_length + 1) + more;
    return (int32_t)tfm__min(target, most ? most : INT32_MAX);
}

/* Returns a length at least as large, and at most half larger: a session then fits many batches. */
static int64_t tfm__length_round(int64_t length) {
    int64_t rounded = 16;
    while (rounded < length)
        rounded = rounded + rounded / 2 < length ? 2 * rounded : rounded + rounded / 2;
    return rounded;
}

/* Sets *n to how many of `left` sentences are translated together: fewer if they are so long that
   their session would take too much memory, but at least 1. Makes a session for them, if the
   worker's is too small. */
static tfm_status tfm__worker_fit(tfm__worker *w, const tfm__need *need, int64_t left, int32_t *n,
                                  tfm_error *err) {
    const tfm_translator *t = w->of;
    const int64_t limit =
        (int64_t)(t->share && t->share < t->batch_bytes ? t->share : t->batch_bytes);
    const int64_t most = t->model->config.max_source_positions;
    const int64_t source = tfm__min(tfm__length_round(need->source), most ? most : INT32_MAX / 4);
    tfm_session *s = w->session;
    tfm_session_options o = t->limits;
    size_t bytes = 0;
    int32_t rows = t->max_batch;
    tfm_status status;
    o.max_source = (int32_t)source;
    o.max_target = tfm__need_target(t, source, need->more ? tfm__length_round(need->more) : 0);
    o.max_draft = need->has_drafts ? TFM__DRAFT : 0;
    o.allocator = &w->allocator, o.threads = w == t->workers ? t->threads : 1;
    *n = 1;
    for (;;) {
        double fewer = rows / 2;
        o.max_batch = rows;
        status = tfm_session_bytes(t->model, &o, &bytes, err);
        if (rows == 1 || (status == TFM_OK && (int64_t)bytes <= limit)) break;
        if (status == TFM_OK) fewer = (double)rows * (double)limit / (double)bytes;
        rows = fewer < 1 ? 1 : fewer < rows - 1 ? (int32_t)fewer : rows - 1;
    }
    if (status != TFM_OK) return status;
    if (t->share && bytes > t->share)
        return tfm__fail(err, TFM_E_MEMORY,
                         "a sentence of %i tokens takes %i bytes, and each thread has %i of "
                         "options.memory",
                         need->source, (int64_t)bytes, (int64_t)t->share);
    *n = (int32_t)tfm__blocks(left, tfm__blocks(left, rows)); /* batches of about the same size */
    if (s && *n <= s->max_batch && need->source <= s->max_source &&
        tfm__need_target(t, need->source, need->more) <= s->max_target &&
        o.max_draft <= s->max_draft)
        return TFM_OK;
    tfm_session_free(s);
    w->session = NULL;
    for (o.max_batch = 1; o.max_batch < *n;) o.max_batch *= 2;
    o.max_batch = (int32_t)tfm__min(o.max_batch, rows);
    status = tfm_session_create(&w->session, t->model, &o, err);
    if (status == TFM_E_MEMORY && o.threads > 1) { /* perhaps no thread could be started */
        o.threads = 1;
        status = tfm_session_create(&w->session, t->model, &o, err);
    }
    if (status != TFM_OK) return status;
    w->session->text.language = t->language, w->session->search.forced = t->forced;
    return TFM_OK;
}

static void tfm__item_fail(tfm_translator *t, tfm__item *item, tfm_status status,
                           const char *message) {
    item->status = status, item->out.size = 0;
    (void)tfm__buffer_append(t, &item->out, message, strlen(message) + 1, NULL);
}

/* Turns the item's text into ids, which are added to the worker's. */
static tfm_status tfm__item_tokenize(tfm__worker *w, tfm__item *item, tfm_error *err) {
    tfm_translator *t = w->of;
    const tfm_model *m = t->model;
    tfm_request *r = &item->at.request;
    int32_t language = t->language, first = t->forced, truncate = t->decode.truncate, n = 0;
    int32_t most = (int32_t)tfm__min(t->max_source, truncate > 0 ? truncate : INT32_MAX);
    const size_t used = w->ids.size;
    tfm__ids to;
    tfm_status status;
    TFM__TRY(tfm__request_languages(&m->config, r, &language, &first, err));
    TFM__TRY(tfm__buffer_reserve(t, &w->ids, used + 1024, err));
    for (;;) {
        tfm_arena need = tfm_arena_measuring();
        tfm_arena scratch = tfm_arena_make(w->scratch.data, w->scratch.room);
        memset(&to, 0, sizeof to);
        to.ids = (int32_t *)(void *)w->ids.data + used / sizeof *to.ids, to.count = &n;
        to.capacity = (int32_t)tfm__min((int64_t)((w->ids.room - used) / sizeof *to.ids), most);
        to.language = language;
        if (truncate > 0 && to.capacity == most) to.left_out = &item->left_out;
        status = tfm__tokenize(m, &m->source, &r->text, TFM_TEXT_FORM_TEXT, &to, &scratch, err);
        if (status == TFM_E_ARENA) {
            TFM__TRY(tfm__tokenize(m, &m->source, &r->text, TFM_TEXT_FORM_TEXT, &to, &need, err));
            if (t->share && need.peak > t->share)
                return tfm__fail(err, TFM_E_MEMORY,
                                 "to tokenize %i bytes takes %i, and each thread has %i of "
                                 "options.memory",
                                 (int64_t)r->text.size, (int64_t)need.peak, (int64_t)t->share);
            TFM__TRY(tfm__buffer_reserve(t, &w->scratch, need.peak, err));
        } else if (status == TFM_E_TOO_LONG && to.capacity < most)
            TFM__TRY(tfm__buffer_reserve(t, &w->ids, 2 * w->ids.room, err));
        else break;
    }
    if (status != TFM_OK) return status;
    if (n && first == TFM__LANGUAGE_UNSET) return tfm__no_language(err);
    item->first_id = used, item->length = n;
    w->ids.size += (size_t)n * sizeof *to.ids;
    return TFM_OK;
}

/* Reads the result of a row. */
static tfm_status tfm__item_read(tfm__worker *w, tfm__item *item, int32_t row, tfm_error *err) {
    tfm_result result;
    size_t size = 0;
    TFM__TRY(tfm_result_get(w->session, row, 0, &result, err));
    if (result.status != TFM_OK) return tfm__fail(err, result.status, "%m", result.message);
    item->tokens = result.length;
    item->is_cut = item->left_out || result.left_out || result.finish == TFM_FINISH_HIT_LENGTH;
    TFM__TRY(tfm_result_text(w->session, row, 0, TFM_TEXT_FORM_TEXT, NULL, 0, &size, err));
    TFM__TRY(tfm__buffer_reserve(w->of, &item->out, size + 1, err));
    item->out.size = size + 1;
    return tfm_result_text(w->session, row, 0, TFM_TEXT_FORM_TEXT, item->out.data, size + 1, &size,
                           err);
}

/* Translates some of the first of n items together, and returns how many. */
static int64_t tfm__batch_run(tfm__worker *w, void **items, int64_t n) {
    tfm_decode_options o = w->of->decode;
    tfm__need need = {1, 0, 0};
    int32_t i, rows;
    tfm_status status;
    for (i = 0; i < n; i++) {
        const tfm__item *item = (const tfm__item *)items[i];
        const tfm_request *r = &item->at.request;
        need.source = tfm__max(need.source, tfm__min(item->length, INT32_MAX / 8));
        need.more =
            tfm__max(need.more, tfm__min((int64_t)r->prefix.n + r->prompt.n, INT32_MAX / 8));
        need.has_drafts |= r->draft.n > 0;
    }
    status = tfm__worker_fit(w, &need, n, &rows, &w->err);
    if (status == TFM_OK)
        status =
            tfm__buffer_reserve(w->of, &w->requests, (size_t)rows * sizeof(tfm_request), &w->err);
    if (status == TFM_OK) {
        tfm_request *requests = (tfm_request *)(void *)w->requests.data;
        for (i = 0; i < rows; i++) requests[i] = ((const tfm__item *)items[i])->at.request;
        o.skip_errors = 1;
        status = tfm_session_decode(w->session, requests, rows, &o, &w->err);
    }
    if (status == TFM_E_MEMORY && rows > 1) return tfm__batch_run(w, items, rows / 2);
    for (i = 0; i < rows; i++) {
        tfm__item *item = (tfm__item *)items[i];
        tfm_status its = status == TFM_OK ? tfm__item_read(w, item, i, &w->err) : status;
        if (its != TFM_OK) tfm__item_fail(w->of, item, its, w->err.text);
    }
    return rows;
}

/* Orders items by length, the longest first: the last batches are then short, during which other
   threads may have nothing to do. */
static int tfm__item_compare(const void *a, const void *b) {
    const tfm__item *x = (const tfm__item *)a, *y = (const tfm__item *)b;
    if (x->length != y->length) return x->length < y->length ? 1 : -1;
    return x < y ? -1 : x > y;
}

/* Does a job: n items of similar length, in one batch unless they are too long. */
static void tfm__job_run(tfm__worker *w, void **items, int64_t n) {
    int64_t i;
    void **end = items; /* of those that the model reads */
    w->ids.size = 0;
    for (i = 0; i < n; i++) {
        tfm__item *item = (tfm__item *)items[i];
        tfm_status status = item->is_text ? tfm__item_tokenize(w, item, &w->err) : TFM_OK;
        if (status != TFM_OK) tfm__item_fail(w->of, item, status, w->err.text);
        else if (!item->is_text || item->length) items[i] = *end, *end++ = item;
    }
    tfm__sort(items, end - items, tfm__item_compare);
    for (i = 0; i < end - items; i++) {
        tfm__item *item = (tfm__item *)items[i];
        if (!item->is_text) continue;
        item->at.request.text = tfm_text_make(NULL, 0);
        item->at.request.ids = tfm_ids_make(
            (const int32_t *)(const void *)(w->ids.data + item->first_id), (int32_t)item->length);
    }
    while (items < end) items += tfm__batch_run(w, items, end - items);
}

/* ---- windows ---- */

/* Adds a sentence to its text, and frees its translation. Returns what done returns, or 0. */
static int tfm__item_join(tfm_translator *t, tfm__item *item) {
    tfm_translated *r = &t->result;
    tfm__buffer *b = &t->joined;
    tfm_request request = item->at.request;
    tfm_error *why = t->failure.status == TFM_OK || item->at.number <= 1 ? &t->failure : NULL;
    int is_stopped;
    if (item->at.number <= 1) {
        int64_t number = r->number;
        memset(r, 0, sizeof *r);
        r->number = number, b->size = 0, t->failure.status = TFM_OK;
    }
    r->sentences++, r->tokens += item->tokens, r->cut += item->is_cut;
    r->blank += item->status == TFM_OK && !item->tokens;
    if (item->status != TFM_OK) {
        const char *message = item->out.size ? item->out.data : tfm_status_text(item->status);
        (void)tfm__splitter_fail(&item->at, item->status, message, why);
    } else if (item->out.size > 1) {
        tfm_text between = tfm__sentence_between(b->data, b->size, item->at.between);
        if (tfm__buffer_append(t, b, between.data, between.size, why) == TFM_OK &&
            tfm__buffer_append(t, b, item->out.data, item->out.size, why) == TFM_OK)
            b->size--; /* the terminator stays behind the text */
    }
    tfm__buffer_free(t, &item->out);
    if (!item->at.is_last) return 0;
    if (item->is_text) request.text = item->whole, request.ids = tfm_ids_make(NULL, 0);
    r->request = &request;
    r->status = t->failure.status, r->message = r->status == TFM_OK ? "" : t->failure.text;
    r->text = r->status == TFM_OK && b->size ? tfm_text_make(b->data, b->size)
                                             : tfm_text_make("", 0);
    is_stopped = t->done(t->user, r);
    r->number++;
    return is_stopped;
}

/* Joins the oldest windows whose jobs are all done, if no other thread does. Holds the mutex. */
static void tfm__windows_finish(tfm_translator *t) {
    while (!t->is_busy && t->finished != t->given) {
        tfm__window *w = &t->windows[t->finished % TFM__WINDOWS];
        int is_stopped = t->is_stopped;
        int64_t i;
        if (w->left) return;
        t->is_busy = 1;
        tfm__unlock(t);
        for (i = 0; i < w->n; i++) {
            tfm__item *item = (tfm__item *)(void *)w->items.data + i;
            if (is_stopped) tfm__buffer_free(t, &item->out);
            else is_stopped = tfm__item_join(t, item) != 0;
        }
        tfm__lock(t);
        t->is_busy = 0, t->is_stopped = is_stopped;
        t->finished++;
        tfm__changed(t);
    }
}

/* Does a job of a window. Holds the mutex, but not while it works. */
static void tfm__window_work(tfm__worker *worker, tfm__window *w, int64_t job) {
    tfm_translator *t = worker->of;
    int64_t first = job * w->job_items, n = tfm__min(w->job_items, w->n - first);
    int is_stopped = t->is_stopped;
    tfm__unlock(t);
    if (!is_stopped) tfm__job_run(worker, (void **)(void *)w->sorted.data + first, n);
    tfm__lock(t);
    w->left--;
    tfm__windows_finish(t);
}

/* Does jobs, those of older windows first, until none is left. Holds the mutex. */
static void tfm__windows_work(tfm__worker *worker) {
    tfm_translator *t = worker->of;
    uint64_t i;
    for (i = t->finished; i != t->given; i++) {
        tfm__window *w = &t->windows[i % TFM__WINDOWS];
        if (w->next * w->job_items >= w->n) continue;
        tfm__window_work(worker, w, w->next++);
        i = t->finished - 1; /* look at all again */
    }
}

#ifdef TFM__THREADS
static TFM__THREAD_MAIN tfm__worker_main(void *worker) {
    tfm__worker *w = (tfm__worker *)worker;
    tfm__lock(w->of);
    for (;;) {
        tfm__windows_work(w);
        if (w->of->is_closed) break;
        tfm__await(w->of);
    }
    tfm__unlock(w->of);
    return 0;
}
#endif

/* Reads requests until the window is full or the input pauses or ends, and sorts the sentences. */
static tfm_status tfm__window_fill(tfm_translator *t, tfm__window *w, tfm_error *err) {
    tfm__splitter *at = &t->input.at;
    const tfm_request *r = &at->request;
    size_t bytes = 0;
    int64_t most = (int64_t)t->max_batch * TFM__WINDOW_BATCHES, i;
    void **sorted;
    for (w->n = 0; w->n < most && bytes < TFM__WINDOW_BYTES; w->n++) {
        tfm__item *item;
        if (at->is_last) {
            tfm_request request;
            memset(&request, 0, sizeof request);
            if (t->input.next) t->input.more = t->input.next(t->user, &request);
            else if (t->input.list == t->input.end) t->input.more = 0;
            else request = *t->input.list++;
            if (t->input.more != 1) break;
            t->input.whole = request.text;
            tfm__splitter_begin(at, t->model, t->sentences, &request);
        }
        w->items.size = (size_t)w->n * sizeof *item;
        if (tfm__buffer_reserve(t, &w->items, w->items.size + sizeof *item, err) != TFM_OK ||
            tfm__buffer_reserve(t, &w->sorted, (size_t)(w->n + 1) * sizeof *sorted, err) != TFM_OK)
            return w->n = 0, TFM_E_MEMORY;
        tfm__splitter_next(at);
        item = (tfm__item *)(void *)w->items.data + w->n;
        memset(item, 0, sizeof *item);
        item->at = *at, item->whole = t->input.whole;
        item->is_text = r->text.data && !r->ids.data && !r->ids.n && !r->embeddings && !r->memory;
        item->length = item->is_text   ? (int64_t)r->text.size
                       : r->memory     ? r->memory->dims[0]
                       : r->embeddings ? r->embeddings->dims[0]
                                       : r->ids.n;
        bytes += r->text.size;
    }
    sorted = (void **)(void *)w->sorted.data;
    for (i = 0; i < w->n; i++) sorted[i] = (tfm__item *)(void *)w->items.data + i;
    tfm__sort(sorted, w->n, tfm__item_compare);
    return TFM_OK;
}

/* Gives the workers a window in jobs: batches, or smaller ones if a thread would get none. */
static void tfm__window_give(tfm_translator *t, tfm__window *w) {
    w->job_items = tfm__min(tfm__blocks(w->n, t->threads), t->max_batch);
    w->left = tfm__blocks(w->n, w->job_items), w->next = 0;
#ifdef TFM__THREADS
    while (w->left > 1 && t->threads > 1 && t->n_started < t->threads &&
           tfm__thread_start(&t->workers[1 + t->n_started].thread, tfm__worker_main,
                             &t->workers[1 + t->n_started]))
        t->n_started++;
#endif
    tfm__lock(t);
    if (w->left == 1 && t->given == t->finished) {
        t->given++, w->next = 1;
        tfm__window_work(&t->workers[0], w, 0);
    } else t->given++;
    if (!t->n_started) tfm__windows_work(&t->workers[0]);
    tfm__changed(t);
    tfm__unlock(t);
}

/* Translates all requests of t->input. */
static tfm_status tfm__translator_run(tfm_translator *t, tfm_translator_done done, void *user,
                                      tfm_error *err) {
    tfm_status status = TFM_OK;
    int is_stopped = 0;
    t->done = done, t->user = user, t->is_stopped = 0, t->result.number = 0;
    t->input.at.is_last = t->input.more = 1;
    while (t->input.more && status == TFM_OK && !is_stopped) {
        tfm__window *w = &t->windows[t->given % TFM__WINDOWS];
        uint64_t most = t->input.more < 0 ? 1 : TFM__WINDOWS; /* the next call may wait */
        tfm__lock(t);
        while (t->is_busy || t->given - t->finished >= most) tfm__await(t);
        is_stopped = t->is_stopped;
        t->is_busy = 1;
        tfm__unlock(t);
        w->n = 0;
        if (!is_stopped) status = tfm__window_fill(t, w, err);
        tfm__lock(t);
        t->is_busy = 0;
        tfm__windows_finish(t);
        tfm__unlock(t);
        if (w->n) tfm__window_give(t, w);
    }
    tfm__lock(t);
    while (t->given != t->finished) tfm__await(t);
    tfm__unlock(t);
    return status;
}

/* ---- the calls ---- */

TFM_DEF tfm_status tfm_translator_create(tfm_translator **translator, const tfm_model *model,
                                         const tfm_translator_options *options, tfm_error *err) {
    tfm_translator_options o;
    tfm_translator *t;
    tfm_allocator allocator;
    void *memory = NULL;
    tfm__need least = {1, 0, 0};
    tfm_status status;
    int32_t i, n;
    memset(&o, 0, sizeof o);
    if (options) o = *options;
    if (!translator || !model) return tfm__fail(err, TFM_E_ARGUMENT, "translator or model is NULL");
    if (!model->config.has_text)
        return tfm__fail(err, TFM_E_NO_TEXT,
                         "the model has no vocabularies: use a session, or convert it with them");
    if (o.threads < 0 || o.threads > TFM__MOST_THREADS || o.max_batch < 0 || o.max_source < 0 ||
        o.max_batch > INT32_MAX / (64 * TFM__WINDOW_BATCHES))
        return tfm__fail(err, TFM_E_ARGUMENT,
                         "threads %d, max_batch %d, max_source %d: one is out of range, expected 0 "
                         "or more, and at most %d threads",
                         o.threads, o.max_batch, o.max_source, (int32_t)TFM__MOST_THREADS);
    TFM__TRY(tfm__check_choice((int)o.sentences, &tfm__sentences_words, "sentences", "", err));
    if (!o.allocator) o.allocator = &model->pool.allocator;
    TFM__TRY(tfm__choose_allocator(&allocator, o.allocator, err));
    TFM__TRY(tfm__allocate(&allocator, (int64_t)sizeof *t, &memory, err));
    t = (tfm_translator *)memory;
    memset(t, 0, sizeof *t);
    t->model = model, t->allocator = allocator, t->held = t->peak = sizeof *t;
#ifdef TFM__THREADS
    if (!tfm__mutex_init(&t->mutex, &t->changed)) {
        allocator.release(allocator.user, t);
        return tfm__fail(err, TFM_E_MEMORY, "no mutex or condition variable for threads");
    }
#else
    o.threads = 1;
#endif
    t->decode = o.decoding ? *o.decoding : model->decoding;
    t->sentences = o.sentences ? o.sentences : model->config.sentences;
    t->threads = o.threads ? o.threads : 1, t->max_batch = o.max_batch ? o.max_batch : 64;
    t->max_source = o.max_source ? o.max_source : 4096;
    if (model->config.max_source_positions)
        t->max_source = (int32_t)tfm__min(t->max_source, model->config.max_source_positions);
    t->batch_bytes = tfm__batch_bytes(&model->config, t->max_batch);
    t->share = o.memory / (size_t)(t->threads > 1 ? t->threads + 1 : 1);
    t->language = model->config.src_language ? TFM__LANGUAGE_UNSET : -1;
    t->forced = model->config.tgt_language_forced ? TFM__LANGUAGE_UNSET : model->config.forced;
    t->limits.max_beam = (int32_t)tfm__min(tfm__decode_hypotheses(&t->decode), INT32_MAX);
    t->limits.cache = o.cache;
    t->limits.attention = t->decode.coverage_penalty != 0;
    t->limits.max_shortlist = t->decode.lexical_shortlist ? model->config.tgt_vocab_size
                                                          : t->decode.n_shortlist;
    for (i = 0; i <= TFM__MOST_THREADS; i++) {
        tfm__worker *w = &t->workers[i];
        w->of = t, w->allocator.user = w;
        w->allocator.allocate = tfm__block_allocate, w->allocator.release = tfm__block_release;
    }
    status = tfm__worker_fit(&t->workers[0], &least, 1, &n, err);
    if (status == TFM_OK && (o.source_language || o.target_language))
        status =
            tfm_languages_set(t->workers[0].session, o.source_language, o.target_language, err);
    if (status == TFM_OK) {
        tfm_decode_options checked = t->decode;
        if (!checked.n_end_ids && model->config.end >= 0)
            checked.end_ids = &model->config.end, checked.n_end_ids = 1;
        status = tfm__search_check_options(t->workers[0].session, &checked, err);
        t->language = t->workers[0].session->text.language;
        t->forced = t->workers[0].session->search.forced;
    }
    if (status == TFM_OK) *translator = t;
    else tfm_translator_free(t);
    return status;
}

TFM_DEF void tfm_translator_free(tfm_translator *translator) {
    tfm_translator *t = translator;
    tfm__worker *w;
    int i;
    if (!t) return;
#ifdef TFM__THREADS
    tfm__lock(t);
    t->is_closed = 1;
    tfm__changed(t);
    tfm__unlock(t);
    while (t->n_started > 0) tfm__thread_join(t->workers[t->n_started--].thread);
#endif
    for (w = t->workers; w <= t->workers + TFM__MOST_THREADS; w++) {
        tfm_session_free(w->session);
        tfm__buffer_free(t, &w->block), tfm__buffer_free(t, &w->ids);
        tfm__buffer_free(t, &w->scratch), tfm__buffer_free(t, &w->requests);
    }
    for (i = 0; i < TFM__WINDOWS; i++)
        tfm__buffer_free(t, &t->windows[i].items), tfm__buffer_free(t, &t->windows[i].sorted);
    tfm__buffer_free(t, &t->joined);
#ifdef TFM__THREADS
    tfm__mutex_destroy(&t->mutex, &t->changed);
#endif
    t->allocator.release(t->allocator.user, t);
}

TFM_DEF tfm_status tfm_translator_run(tfm_translator *translator, const tfm_request *requests,
                                      int64_t n, tfm_translator_done done, void *user,
                                      tfm_error *err) {
    if (!translator || !done || n < 0 || (n && !requests))
        return tfm__fail(err, TFM_E_ARGUMENT,
                         "translator, requests or done is NULL, or n is negative");
    translator->input.next = NULL;
    translator->input.list = requests, translator->input.end = n ? requests + n : requests;
    return tfm__translator_run(translator, done, user, err);
}

TFM_DEF tfm_status tfm_translator_pull(tfm_translator *translator, tfm_translator_next next,
                                       tfm_translator_done done, void *user, tfm_error *err) {
    if (!translator || !next || !done)
        return tfm__fail(err, TFM_E_ARGUMENT, "translator, next or done is NULL");
    translator->input.next = next;
    return tfm__translator_run(translator, done, user, err);
}

TFM_DEF size_t tfm_translator_bytes(const tfm_translator *translator) {
    tfm_translator *t = (tfm_translator *)(uintptr_t)(const void *)translator; /* its mutex */
    size_t peak;
    if (!t) return 0;
    tfm__lock(t);
    peak = t->peak;
    tfm__unlock(t);
    return peak;
}
#endif /* TRANSFORMER_NO_TEXT */

/* >>vectors =======================================================================================
   37. VECTOR KERNELS
   The vector kernels are written once, as a template over a vector type and its operations (TFM__V,
   TFM__I). The template is the last code in this file. Here each instruction set defines the
   operations and then includes this file again (TRANSFORMER_FILE), which is the template alone.
   TFM__SAME_VECTORS keeps the definitions for the next set, which adds what it has of its own.

   Every function names the instructions that it needs, so the file compiles without flags, and
   tfm__kernel_set asks the CPU before it returns a set. Relies on the types and plain loops of
   >>kernels.
   ============================================================================================== */

/* ---- x86-64 ---- */

#ifdef TFM__X86
#if !defined(__clang__) /* some versions warn about their own headers (GCC bug 105593) */
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#pragma GCC diagnostic ignored "-Wsign-conversion" /* in its macros, without optimization */
#endif
#include <cpuid.h>
#include <immintrin.h>

/* Kernels begin a cache line. Otherwise a change of other code moves their loops across lines,
   which costs a few per cent of the time of a beam search. */
#define TFM__KERNEL(instructions) __attribute__((target(instructions), aligned(64)))
#define TFM__AVX512 TFM__KERNEL("avx512f,avx512dq,avx512bw,avx512vl,avx2,fma,f16c")
#define TFM__VNNI TFM__KERNEL("avx512vnni,avx512f,avx512dq,avx512bw,avx512vl,avx2,fma,f16c")
#define TFM__AVX2 TFM__KERNEL("avx2,fma,f16c")

/* Returns the mask of the lanes that are left, at most 16. Others are neither read nor written. */
TFM__AVX512 static TFM__INLINE __mmask16 tfm__avx512_mask(int64_t left) {
    if (left >= 16) return (__mmask16)0xFFFF;
    return (__mmask16)(left > 0 ? (1u << left) - 1u : 0);
}

/* Adds the lanes of 16 accumulators by halves, all at once. Lane i of the result is sum i. */
TFM__AVX512 static TFM__INLINE __m512 tfm__avx512_sum_lanes(const __m512 *a) {
    __m512 b[8], e;
    int i;
    /* halves of 8 lanes, then of 4: a register has two accumulators, then four */
    TFM__UNROLL
    for (i = 0; i < 8; i++)
        b[i] = _mm512_shuffle_f32x4(a[i], a[i + 8], 0x44) +
               _mm512_shuffle_f32x4(a[i], a[i + 8], 0xEE);
    TFM__UNROLL
    for (i = 0; i < 4; i++)
        b[i] = _mm512_shuffle_f32x4(b[i], b[i + 4], 0x88) +
               _mm512_shuffle_f32x4(b[i], b[i + 4], 0xDD);
    /* then of 2 and of 1, within quarters */
    TFM__UNROLL
    for (i = 0; i < 2; i++)
        b[i] = _mm512_shuffle_ps(b[i], b[i + 2], 0x44) + _mm512_shuffle_ps(b[i], b[i + 2], 0xEE);
    e = _mm512_shuffle_ps(b[0], b[1], 0x88) + _mm512_shuffle_ps(b[0], b[1], 0xDD);
    /* the accumulators came out with their indices' bits reversed in pairs: 0 2 1 3 */
    e = _mm512_shuffle_ps(e, e, 0xD8);
    return _mm512_shuffle_f32x4(e, e, 0xD8);
}

/* Returns the mask of the lanes that are left, at most 8. */
TFM__AVX2 static TFM__INLINE __m256i tfm__avx2_mask(int64_t left) {
    const __m256i lanes = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
    int32_t n = (int32_t)(left < 0 ? 0 : left > 8 ? 8 : left);
    return _mm256_cmpgt_epi32(_mm256_set1_epi32(n), lanes);
}

/* ---- x86-64: what the CPU has ---- */

/* Asks the CPU and the system, and returns the bits of all features that both have. Asks each leaf
   of CPUID once: in a virtual machine an answer takes 8 microseconds or more. AVX2 is with FMA and
   F16C; AVX512 is F, DQ, BW and VL. __builtin_cpu_supports needs a runtime library, and that of zig
   answers 0 to everything. */
static int tfm__cpu_ask(void) {
    const long arch_prctl = 158, request_permission = 0x1023, tile_data = 18;
    unsigned a, b, c, d, leaves, first, low, high;
    int has, avx512;
    __cpuid(0, leaves, b, c, d);
    has = b == 0x756e6547 ? TFM__CPU_INTEL : b == 0x68747541 ? TFM__CPU_AMD : 0; /* Genu, Auth */
    if (leaves < 7) return has;
    __cpuid(1, a, b, first, d);
    if (!(first >> 27 & 1)) return has;                          /* XGETBV */
    __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0)); /* registers that are kept */
    if ((low & 6) != 6) return has;
    __cpuid_count(7, 0, a, b, c, d);
    avx512 = (low & 0xe6) == 0xe6 && (b >> 16 & b >> 17 & b >> 30 & b >> 31 & 1);
    if (first >> 12 & first >> 29 & b >> 5 & 1) has |= TFM__CPU_AVX2;
    if (avx512) has |= TFM__CPU_AVX512;
    if (c >> 11 & 1) has |= TFM__CPU_VNNI;
#ifdef TFM__AMX
    /* a process must request AMX: Linux then reserves room for the tiles in signal frames */
    if ((low >> 17 & 3) == 3 && (d >> 22 & d >> 24 & d >> 25 & 1) && /* bf16, tiles, int8 */
        syscall(arch_prctl, request_permission, tile_data) == 0)
        has |= TFM__CPU_AMX;
#else
    (void)arch_prctl, (void)request_permission, (void)tile_data;
#endif
#ifdef TFM__EVEX
    if (avx512 && (c >> 11 & 1)) has |= TFM__CPU_AVX_VNNI;
#endif
    (void)high;
    if (a < 1) return has; /* the last leaf 7 */
    __cpuid_count(7, 1, a, b, c, d);
#ifndef TFM__EVEX
    if (a >> 4 & 1) has |= TFM__CPU_AVX_VNNI;
#endif
    return a >> 5 & 1 ? has | TFM__CPU_BF16 : has;
}

/* Returns whether the CPU has a feature and the system grants it. All threads find the same
   answers, so it does not matter which of them writes last. */
static int tfm__cpu_has(int feature) {
    enum { ASKED = 1 << 8 };
    static int answers;
    int all = __atomic_load_n(&answers, __ATOMIC_RELAXED);
    if (!all) __atomic_store_n(&answers, all = tfm__cpu_ask() | ASKED, __ATOMIC_RELAXED);
    return (all & feature) != 0;
}

#ifdef TFM__BF16
TFM__AVX512 static void tfm__avx512_narrow(unsigned char *to, const float *x, int64_t n) {
    const __m512i one = _mm512_set1_epi32(1), almost_half = _mm512_set1_epi32(0x7FFF);
    for (; n > 0; n -= 16, x += 16, to += 32) {
        __m512 v = _mm512_maskz_loadu_ps(tfm__avx512_mask(n), x);
        __m512i bits = _mm512_castps_si512(v), high = _mm512_srli_epi32(bits, 16);
        __mmask16 nan = _mm512_cmp_ps_mask(v, v, _CMP_UNORD_Q);
        bits = _mm512_add_epi32(bits, _mm512_add_epi32(almost_half, _mm512_and_si512(high, one)));
        bits = _mm512_mask_or_epi32(_mm512_srli_epi32(bits, 16), nan, high, _mm512_set1_epi32(64));
        _mm256_storeu_si256((__m256i *)(void *)to, _mm512_cvtepi32_epi16(bits));
    }
}
#endif

/* ---- x86-64: SSE2, AVX2, AVX-512 ---- */

#define TFM__V __m128
#define TFM__VL 4
#define TFM__ISA sse2
#define TFM__TARGET
#define TFM__FLOAT_TILES(X, type) X(type, 2, 1) X(type, 1, 2)
#define TFM__V_SET(x) _mm_set1_ps(x)
#define TFM__V_FMA(a, b, c) _mm_add_ps(_mm_mul_ps(a, b), c)
#define TFM__V_MIN(a, b) _mm_min_ps(a, b)
#define TFM__V_MAX(a, b) _mm_max_ps(a, b)
#define TFM__V_IF_LESS(a, b, x, y) tfm__sse2_if_less(_mm_cmplt_ps(a, b), x, y)
#define TFM__V_ROUND(v) _mm_cvtepi32_ps(_mm_cvtps_epi32(v))
#define TFM__INT8_TARGET
#define TFM__INT8_TILES(X, type) X(type, 2, 1) X(type, 1, 1)
#define TFM__INT8_SPLIT 2
#define TFM__I __m128i
#define TFM__I_LOAD(p) tfm__sse2_widen(_mm_loadl_epi64((const __m128i *)(const void *)(p)))
#define TFM__I_X(four) tfm__sse2_widen(_mm_set1_epi32(four))
#define TFM__I_DOT(sum, x, w) sum = _mm_add_epi32(sum, _mm_madd_epi16(x, w))
#define TFM__I_FLOATS(a, b, sums) tfm__sse2_pairs(a, b)

static TFM__INLINE void tfm__sse2_store_bytes(unsigned char *q, __m128 v, int bias) {
    __m128i i = _mm_add_epi32(_mm_cvtps_epi32(v), _mm_set1_epi32(bias));
    int32_t four;
    i = _mm_packs_epi32(i, i);
    four = _mm_cvtsi128_si32(bias ? _mm_packus_epi16(i, i) : _mm_packs_epi16(i, i));
    memcpy(q, &four, sizeof four);
}
static TFM__INLINE __m128 tfm__sse2_if_less(__m128 less, __m128 x, __m128 y) {
    return _mm_or_ps(_mm_and_ps(less, x), _mm_andnot_ps(less, y));
}
/* Widens the lower eight bytes to 16 bits. */
static TFM__INLINE __m128i tfm__sse2_widen(__m128i bytes) {
    return _mm_srai_epi16(_mm_unpacklo_epi8(bytes, bytes), 8);
}
static TFM__INLINE __m128 tfm__sse2_pairs(__m128i a, __m128i b) {
    __m128 x = _mm_castsi128_ps(a), y = _mm_castsi128_ps(b);
    return _mm_cvtepi32_ps(_mm_add_epi32(_mm_castps_si128(_mm_shuffle_ps(x, y, 0x88)),
                                         _mm_castps_si128(_mm_shuffle_ps(x, y, 0xDD))));
}
#include TRANSFORMER_FILE

#define TFM__V __m256
#define TFM__VL 8
#define TFM__ISA avx2
#define TFM__TARGET TFM__AVX2
#define TFM__FLOAT_TILES(X, type) X(type, 6, 1) X(type, 4, 1) X(type, 2, 2) X(type, 1, 4)
#define TFM__V_SET(x) _mm256_set1_ps(x)
#define TFM__V_LOAD_SOME(p, n) tfm__avx2_load_some(p, n)
#define TFM__V_STORE_SOME(p, v, n) tfm__avx2_store_some(p, v, n)
#define TFM__V_F16(p) _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(const void *)(p)))
#define TFM__V_STORE_F16(p, v)                                                                     \
    _mm_storeu_si128((__m128i *)(void *)(p), _mm256_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT))
#define TFM__V_STORE_SUMS(p, a) _mm_storeu_ps(p, tfm__avx2_sum_lanes(a[0], a[1]))
#define TFM__V_FMA(a, b, c) _mm256_fmadd_ps(a, b, c)
#define TFM__V_MIN(a, b) _mm256_min_ps(a, b)
#define TFM__V_MAX(a, b) _mm256_max_ps(a, b)
#define TFM__V_IF_LESS(a, b, x, y) _mm256_blendv_ps(y, x, _mm256_cmp_ps(a, b, _CMP_LT_OQ))
#define TFM__V_ROUND(v) _mm256_round_ps(v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC)
#define TFM__INT8_TARGET TFM__AVX2
#define TFM__INT8_TILES /* tfm__avx2_tile_int8 below */
#define TFM__INT8_SPLIT 1
#define TFM__I __m256i
#define TFM__I_LOAD(p) _mm256_loadu_si256((const __m256i *)(const void *)(p))
#define TFM__I_X(four) _mm256_set1_epi32(four)
#define TFM__I_FLOATS(a, b, sums) _mm256_cvtepi32_ps(a)

/* Adds the lanes of four accumulators by halves. Each accumulator is two registers. */
TFM__AVX2 static TFM__INLINE __m128 tfm__avx2_sum_lanes(const __m256 *low, const __m256 *high) {
    __m128 halves[4];
    int i;
    TFM__UNROLL
    for (i = 0; i < 4; i++) {
        __m256 sum = low[i] + high[i];
        halves[i] = _mm256_castps256_ps128(sum) + _mm256_extractf128_ps(sum, 1);
    }
    return tfm__sse2_sum_four(halves);
}
TFM__AVX2 static TFM__INLINE __m256 tfm__avx2_load_some(const float *p, int64_t n) {
    return n == 8 ? _mm256_loadu_ps(p) : _mm256_maskload_ps(p, tfm__avx2_mask(n));
}
TFM__AVX2 static TFM__INLINE void tfm__avx2_store_some(float *p, __m256 v, int64_t n) {
    if (n == 8) _mm256_storeu_ps(p, v);
    else _mm256_maskstore_ps(p, tfm__avx2_mask(n), v);
}
TFM__AVX2 static TFM__INLINE void tfm__avx2_store_bytes(unsigned char *q, __m256 v, int bias) {
    __m256i i = _mm256_add_epi32(_mm256_cvtps_epi32(v), _mm256_set1_epi32(bias));
    __m128i w = _mm_packs_epi32(_mm256_castsi256_si128(i), _mm256_extracti128_si256(i, 1));
    _mm_storel_epi64((__m128i *)(void *)q, bias ? _mm_packus_epi16(w, w) : _mm_packs_epi16(w, w));
}
#ifdef TFM__AVX_VNNI
#define TFM__SAME_VECTORS
#include TRANSFORMER_FILE
#define TFM__ISA avx_vnni
#define TFM__INT8_TARGET TFM__AVX2
#define TFM__INT8_TILES(X, type) X(type, 6, 1) X(type, 4, 1) X(type, 2, 2) X(type, 1, 4)
/* VPDPBUSD without AVX-512, which Intel's desktops and laptops have since the 12th generation.
   TFM__EVEX is for tests on machines that have only AVX-512's encoding of the instruction. */
#ifdef TFM__EVEX
#define TFM__VEX ""
#else
#define TFM__VEX "%{vex%} "
#endif
#define TFM__DOT_AVX_VNNI(sum, x, w)                                                               \
    __asm__(TFM__VEX "{vpdpbusd %2, %1, %0|vpdpbusd %0, %1, %2}" : "+x"(sum) : "x"(x), "x"(w))
#define TFM__I_DOT(sum, x, w) TFM__DOT_AVX_VNNI(sum, x, w)
#define TFM__I_FLOATS(a, b, sums) _mm256_cvtepi32_ps(_mm256_sub_epi32(a, TFM__I_LOAD(sums)))
#endif
#include TRANSFORMER_FILE

/* ---- x86-64: the tile of int8 by AVX2 ----
   AVX2 multiplies u8 by s8 and adds pairs of products in 16 bits, where they may not fit. split
   drops steps of eight columns whose x are zero, and sorts those that are left by three ways:

       way      u8         s8                     when
       FOURS    w + 128    x                      of each four x, the positive ones add up to 128 at
                                                  most, negative ones to -128 at least: two pairs
                                                  are added in 16 bits before they are widened to 32
       TWOS     w + 128    x                      the same of each two x: each pair is widened
       SIGNED   |x|        w, or w ^ -1 = -w - 1  otherwise; pairs of |x| always fit
                           for -w if x < 0

   In a row without a negative x, x is the u8 and w the s8. ReLU leaves many zeros in such a row, so
   split drops groups of four columns, and two groups that are left make a step: FOURS if no two x
   that are multiplied together add up to more than 127, else TWOS. Few rows wait for w, so they
   read it in order, with |x| as the u8.

   If all w of a block fit 7 bits (-64 to 63), w + 64 is the u8 and x the s8, and no step is sorted:
   two products are at most 2 * 127 * 127, and four fit 16 bits if four |x| add up to 255 at most
   (FOURS; else TWOS). The copy of w finds this out, so it needs no statement of a file. Few rows
   gain nothing: w + 64 costs as much as the signs. */

enum { TFM__FOURS, TFM__TWOS, TFM__SIGNED, TFM__WAYS };
enum {
    TFM__BLOCK = 512, /* columns of two panels that fit the first-level cache */
    TFM__BLOCKS = TFM__X_BYTES / TFM__BLOCK,
    TFM__VECTORS = 2 * TFM__PANEL / 8, /* of outputs */
    TFM__WORTH_COPYING = 6             /* rows from which a copy of the panels pays */
};
/* The steps of a block that a row of x takes. */
typedef struct tfm__avx2_block {
    uint16_t steps[TFM__WAYS];
    uint16_t list[TFM__BLOCK / 4]; /* way by way, the first column of each step; in a row without a
                                      negative x, the first columns of the two groups of each */
} tfm__avx2_block;
/* What split writes about a row of x. */
typedef struct tfm__avx2_order {
    int32_t signs;               /* the sum of |x| over negative x */
    int32_t begin[TFM__BLOCKS];  /* less the products by 128, and |x| for each w ^ -1 */
    int32_t begin7[TFM__BLOCKS]; /* less the products by 64 */
    uint64_t large[TFM__BLOCKS]; /* a bit for each step: four |x| add up to more than 255 */
    tfm__avx2_block blocks[TFM__BLOCKS];
} tfm__avx2_order;

/* Returns four bits: which halves of 16 bits, by 64 bits, are at most `most`. */
TFM__AVX2 static TFM__INLINE uint64_t tfm__avx2_fit(__m256i sums, int most) {
    __m256i over = _mm256_cmpgt_epi16(sums, _mm256_set1_epi16((short)most));
    over = _mm256_cmpeq_epi64(over, _mm256_setzero_si256());
    return (uint64_t)_mm256_movemask_pd(_mm256_castsi256_pd(over));
}

/* Returns the sum of four numbers of 64 bits. */
TFM__AVX2 static TFM__INLINE int32_t tfm__avx2_total(__m256i v) {
    int64_t sums[4];
    _mm256_storeu_si256((__m256i *)(void *)sums, v);
    return (int32_t)(sums[0] + sums[1] + sums[2] + sums[3]);
}

/* Returns a bit for each number of 32 bits that is zero. */
TFM__AVX2 static TFM__INLINE int tfm__avx2_zeros(__m256i v) {
    v = _mm256_cmpeq_epi32(v, _mm256_setzero_si256());
    return _mm256_movemask_ps(_mm256_castsi256_ps(v));
}

/* Appends first + columns * i for each bit i that is set, and returns the end of the list. */
static uint16_t *tfm__avx2_append(uint16_t *list, uint64_t bits, int columns, int first) {
    for (; bits; bits &= bits - 1) *list++ = (uint16_t)(first + columns * __builtin_ctzll(bits));
    return list;
}

/* Lists the groups of n columns of a row without a negative x. If the last group is alone, a group
   of zeros is listed beside it. There is one then, because a row has an even number of groups. */
TFM__AVX2 static void tfm__avx2_list_groups(tfm__avx2_block *block, const unsigned char *x,
                                            int64_t n) {
    const __m256i ones = _mm256_set1_epi8(1), most = _mm256_set1_epi16(127);
    enum { HALF = TFM__BLOCK / 2 };
    uint64_t ways[2][2] = {{0, 0}, {0, 0}}, some; /* by way and half of the block */
    uint16_t *first = block->list, *list = first;
    int64_t i;
    int way, half;
    for (i = 0; i < n; i += 32) {
        const __m256i v = _mm256_loadu_si256((const __m256i *)(const void *)(x + i));
        const __m256i over = _mm256_cmpgt_epi16(_mm256_maddubs_epi16(v, ones), most);
        const int fit = tfm__avx2_zeros(over), at = (int)(i % HALF / 4);
        ways[TFM__FOURS][i / HALF] |= (uint64_t)(fit & ~tfm__avx2_zeros(v)) << at;
        ways[TFM__TWOS][i / HALF] |= (uint64_t)(255 ^ fit) << at;
    }
    some = ways[TFM__FOURS][0] | ways[TFM__TWOS][0];
    half = some == UINT64_MAX; /* it has no group of zeros */
    if (half) some = ways[TFM__FOURS][1] | ways[TFM__TWOS][1];
    for (way = TFM__FOURS; way <= TFM__TWOS; way++) {
        for (i = 0; i < 2; i++) list = tfm__avx2_append(list, ways[way][i], 4, (int)i * HALF);
        if ((list - first) % 2 && (way == TFM__TWOS || !(ways[TFM__TWOS][0] | ways[TFM__TWOS][1])))
            list = tfm__avx2_append(list, ~some & (some + 1), 4, half * HALF);
        block->steps[way] = (uint16_t)((list - first) / 2);
        first += 2 * block->steps[way]; /* a last group of FOURS that is alone begins TWOS */
    }
    block->steps[TFM__SIGNED] = 0;
}

TFM__AVX2 static void tfm__avx2_split(const unsigned char *x, unsigned char *to, int64_t n) {
    const __m256i zero = _mm256_setzero_si256(), ones = _mm256_set1_epi8(1);
    const __m256i high = _mm256_set1_epi8(-128);
    uint64_t fours[TFM__BLOCKS], some[TFM__BLOCKS], is_signed[TFM__BLOCKS];
    tfm__avx2_order *order = (tfm__avx2_order *)(void *)to;
    __m256i signs = zero;
    int way, b;
    for (b = 0; b < TFM__BLOCKS; b++) {
        const int64_t end = tfm__min(n - (int64_t)b * TFM__BLOCK, TFM__BLOCK);
        uint64_t is_some = 0, is_fours = 0, has_signs = 0, is_large = 0;
        __m256i begin = zero, begin7 = zero;
        int64_t i;
        for (i = 0; i < end; i += 32) { /* four steps */
            const int at = (int)(i / 8);
            __m256i v = _mm256_loadu_si256((const __m256i *)(const void *)(x + i));
            __m256i negative = _mm256_max_epi8(_mm256_sub_epi8(zero, v), zero), sum, pairs;
            __m256i p = _mm256_maddubs_epi16(_mm256_max_epi8(v, zero), ones);
            __m256i q = _mm256_maddubs_epi16(negative, ones);
            pairs = _mm256_cmpgt_epi16(_mm256_max_epi16(p, q), _mm256_set1_epi16(128));
            pairs = _mm256_cmpeq_epi64(pairs, zero); /* -1: all pairs fit */
            has_signs |= (uint64_t)(15 ^ _mm256_movemask_pd(_mm256_castsi256_pd(pairs))) << at;
            sum = _mm256_slli_epi64(_mm256_sad_epu8(_mm256_xor_si256(v, high), zero), 7);
            sum = _mm256_sub_epi64(_mm256_set1_epi64x(8 * 128 * 128), sum); /* -128 times x */
            negative = _mm256_sad_epu8(negative, zero);
            begin = _mm256_add_epi64(begin, _mm256_blendv_epi8(negative, sum, pairs));
            begin7 = _mm256_add_epi64(begin7, sum);
            signs = _mm256_add_epi64(signs, negative);
            p = _mm256_add_epi16(p, _mm256_srli_epi64(p, 32));
            q = _mm256_add_epi16(q, _mm256_srli_epi64(q, 32));
            is_fours |= tfm__avx2_fit(_mm256_max_epi16(p, q), 128) << at;
            is_large |= (15 ^ tfm__avx2_fit(_mm256_add_epi16(p, q), 255)) << at;
            v = _mm256_cmpeq_epi64(v, zero);
            is_some |= (uint64_t)(15 ^ _mm256_movemask_pd(_mm256_castsi256_pd(v))) << at;
        }
        order->begin[b] = tfm__avx2_total(begin);
        order->begin7[b] = tfm__avx2_total(begin7) / 2;
        order->large[b] = is_large;
        fours[b] = is_fours, some[b] = is_some, is_signed[b] = has_signs;
        x += TFM__BLOCK;
    }
    order->signs = tfm__avx2_total(signs);
    for (b = 0; b < TFM__BLOCKS; b++) {
        uint64_t ways[TFM__WAYS];
        uint16_t *list = order->blocks[b].list;
        if (!order->signs) {
            tfm__avx2_list_groups(&order->blocks[b], x + (b - TFM__BLOCKS) * TFM__BLOCK,
                                  tfm__min(n - (int64_t)b * TFM__BLOCK, TFM__BLOCK));
            continue;
        }
        ways[TFM__FOURS] = some[b] & fours[b] & ~is_signed[b];
        ways[TFM__TWOS] = some[b] & ~fours[b] & ~is_signed[b];
        ways[TFM__SIGNED] = is_signed[b];
        for (way = 0; way < TFM__WAYS; way++) {
            const uint16_t *first = list;
            list = tfm__avx2_append(list, ways[way], 8, 0);
            order->blocks[b].steps[way] = (uint16_t)(list - first);
        }
    }
}

/* Adds eight columns to the vectors of sums a and b. This is assembly because gcc 12 writes sums to
   memory around intrinsics, and clang 14 widens pairs too early. Where w is the s8, the products
   read it from memory: a load of its own costs 1.14 times the time on a Zen 3. */
#define TFM__AVX2_OP(op, to, a, b)                                                                 \
    "{" op " %[" #b "], %[" #a "], %[" #to "]|" op " %[" #to "], %[" #a "], %[" #b "]}\n\t"
#define TFM__AVX2_MOVE(to, from)                                                                   \
    "{vmovdqu %[" #from "], %[" #to "]|vmovdqu %[" #to "], %[" #from "]}\n\t"
#define TFM__AVX2_TIMES(p, a0, b0, q, a1, b1)                                                      \
    TFM__AVX2_OP("vpmaddubsw", p, a0, b0) TFM__AVX2_OP("vpmaddubsw", q, a1, b1)
#define TFM__AVX2_TIMES_S8(p, q, w0, w1)                                                           \
    TFM__AVX2_MOVE(p, w0) TFM__AVX2_MOVE(q, w1) TFM__AVX2_TIMES(p, p, x0, q, q, x1)
#define TFM__AVX2_TIMES_U8(p, q, w0, w1) TFM__AVX2_TIMES(p, x0, w0, q, x1, w1)
#define TFM__AVX2_TIMES_XOR(p, q, w0, w1)                                                          \
    TFM__AVX2_OP("vpxor", p, mask0, w0)                                                            \
    TFM__AVX2_OP("vpxor", q, mask1, w1) TFM__AVX2_TIMES(p, x0, p, q, x1, q)
#define TFM__AVX2_BOTH(op, p, q, to) TFM__AVX2_OP(op, p, p, to) TFM__AVX2_OP(op, q, q, to)
#define TFM__AVX2_ADD                                                                              \
    TFM__AVX2_BOTH("vpmaddwd", p, u, ones)                                                         \
    TFM__AVX2_OP("vpaddd", a, a, p) TFM__AVX2_OP("vpaddd", b, b, u)
#define TFM__AVX2_TWOS                                                                             \
    TFM__AVX2_BOTH("vpmaddwd", q, v, ones)                                                         \
    TFM__AVX2_OP("vpaddd", a, a, q) TFM__AVX2_OP("vpaddd", b, b, v) TFM__AVX2_ADD
#define TFM__AVX2_FOURS                                                                            \
    TFM__AVX2_OP("vpaddw", p, p, q) TFM__AVX2_OP("vpaddw", u, u, v) TFM__AVX2_ADD
#define TFM__AVX2_AT(w) "m"(*(const unsigned char(*)[32])(w))
#define TFM__AVX2_STEP(sums, w, next, stride, times, add)                                          \
    do {                                                                                           \
        __m256i p, q, u, v;                                                                        \
        __asm__(TFM__AVX2_##times(p, q, w0, w1) TFM__AVX2_##times(u, v, w2, w3) TFM__AVX2_##add    \
                : [a] "+x"((sums)[0]), [b] "+x"((sums)[1]), [p] "=&x"(p), [q] "=&x"(q),            \
                  [u] "=&x"(u), [v] "=&x"(v)                                                       \
                : [ones] "x"(ones), [x0] "x"(x0), [x1] "x"(x1), [mask0] "x"(mask0),                \
                  [mask1] "x"(mask1), [w0] TFM__AVX2_AT(w), [w1] TFM__AVX2_AT(next),               \
                  [w2] TFM__AVX2_AT((w) + (stride)), [w3] TFM__AVX2_AT((next) + (stride)));        \
    } while (0)

/* Adds the step of a row that has the groups from columns k and next on. w is the block's copy:
   group by group for each vector of outputs. u8: x is the u8 without SIGNED; else next is k + 4. */
TFM__AVX2 static TFM__INLINE void tfm__avx2_step(__m256i *sums, const unsigned char *x,
                                                 const unsigned char *copy, int64_t k, int64_t next,
                                                 int way, int u8) {
    const __m256i zero = _mm256_setzero_si256(), high = _mm256_set1_epi8(-128);
    const __m256i ones = _mm256_set1_epi16(1);
    const unsigned char *w = copy + 8 * k, *other = u8 ? copy + 8 * next : w + 32;
    enum { STRIDE = 8 * TFM__BLOCK };
    __m256i x0 = _mm256_set1_epi32(tfm__avx2_four(x + k)), mask0 = x0;
    __m256i x1 = _mm256_set1_epi32(tfm__avx2_four(x + (u8 ? next : k + 4))), mask1 = x1;
    int i;
    if (way == TFM__SIGNED) { /* the exclusive or takes 128 back, too */
        mask0 = _mm256_xor_si256(_mm256_cmpgt_epi8(zero, x0), high), x0 = _mm256_abs_epi8(x0);
        mask1 = _mm256_xor_si256(_mm256_cmpgt_epi8(zero, x1), high), x1 = _mm256_abs_epi8(x1);
    }
    TFM__UNROLL
    for (i = 0; i < TFM__VECTORS; i += 2, w += 2 * STRIDE, other += 2 * STRIDE)
        if (way == TFM__SIGNED) TFM__AVX2_STEP(sums + i, w, other, STRIDE, TIMES_XOR, TWOS);
        else if (way == TFM__FOURS && u8)
            TFM__AVX2_STEP(sums + i, w, other, STRIDE, TIMES_U8, FOURS);
        else if (way == TFM__FOURS) TFM__AVX2_STEP(sums + i, w, other, STRIDE, TIMES_S8, FOURS);
        else if (u8) TFM__AVX2_STEP(sums + i, w, other, STRIDE, TIMES_U8, TWOS);
        else TFM__AVX2_STEP(sums + i, w, other, STRIDE, TIMES_S8, TWOS);
}

/* Adds the steps of a block that go one way, and returns the rest of the list. */
TFM__AVX2 static TFM__INLINE const uint16_t *tfm__avx2_run(__m256i *sums, const unsigned char *x,
                                                           const unsigned char *copy,
                                                           const uint16_t *list, int steps, int way,
                                                           int u8) {
    const uint16_t *end = list + steps * (1 + u8);
    for (; list != end; list += 1 + u8) tfm__avx2_step(sums, x, copy, *list, list[u8], way, u8);
    return list;
}

/* Adds all n columns of a block whose copy is w + 64. */
TFM__AVX2 static TFM__INLINE void tfm__avx2_run7(__m256i *sums, const unsigned char *x,
                                                 const unsigned char *copy, int64_t n,
                                                 uint64_t large) {
    int64_t k;
    for (k = 0; k < n; k += 8, large >>= 1)
        if (large & 1) tfm__avx2_step(sums, x, copy, k, k + 4, TFM__TWOS, 0);
        else tfm__avx2_step(sums, x, copy, k, k + 4, TFM__FOURS, 0);
}

/* Copies up to 512 columns of two panels, and adds zero_point. If that is 64 and some w needs more
   than 7 bits, returns 0 halfway. */
TFM__AVX2 static TFM__INLINE int tfm__avx2_copy(__m256i *to, const tfm__tile *t, int64_t k,
                                                int zero_point) {
    const __m256i add = _mm256_set1_epi8((char)zero_point);
    const int64_t groups = (tfm__min(t->K - k, TFM__BLOCK) + 3) / 4;
    int64_t g;
    int i;
    for (i = 0; i < TFM__VECTORS; i++, to += TFM__BLOCK / 4) {
        const unsigned char *from = t->w[i / 2] + k * TFM__PANEL + i % 2 * 32;
        for (g = 0; g < groups; g++, from += 4 * TFM__PANEL) {
            __m256i v = _mm256_loadu_si256((const __m256i *)(const void *)from);
            v = _mm256_add_epi8(v, add);
            if (zero_point == 64 && _mm256_movemask_epi8(v)) return 0;
            _mm256_storeu_si256(to + g, v);
        }
        if (groups % 2) _mm256_storeu_si256(to + groups, add);
    }
    return 1;
}

/* Returns what split wrote about row r. */
static const tfm__avx2_order *tfm__avx2_order_of(const tfm__tile *t, int r) {
    const unsigned char *x = (const unsigned char *)t->x + r * TFM__X_STRIDE;
    return (const tfm__avx2_order *)(const void *)(x + t->order);
}

/* Computes many rows by two panels, block by block, each block of all rows. */
TFM__AVX2 static TFM__INLINE void tfm__avx2_by_lists(const tfm__tile *t, int u8) {
    __m256i copy[TFM__VECTORS * TFM__BLOCK / 4];
    tfm__avx2_sums kept[TFM__MOST_ROWS];
    int64_t k = 0, line, lines;
    int r, i, ends;
    do {
        const int b = (int)(k / TFM__BLOCK);
        const unsigned char *ahead = t->ahead;
        int64_t stride = t->ahead_stride, n = tfm__min(t->K - k, TFM__BLOCK);
        const int is_7 = !u8 && tfm__avx2_copy(copy, t, k, 64);
        if (!is_7) tfm__avx2_copy(copy, t, k, u8 ? 0 : 128);
        k += TFM__BLOCK, ends = k >= t->K;
        if (!ends) ahead = t->w[0] + k * TFM__PANEL, stride = t->w[1] - t->w[0];
        lines = (tfm__min(ends ? t->K : t->K - k, TFM__BLOCK) * TFM__PANEL / 64 + t->rows - 1) /
                t->rows;
        for (r = 0; r < t->rows; r++) {
            const unsigned char *x = (const unsigned char *)t->x + r * TFM__X_STRIDE;
            const tfm__avx2_order *order = tfm__avx2_order_of(t, r);
            const tfm__avx2_block *block = &order->blocks[b];
            const unsigned char *w = (const unsigned char *)copy;
            const uint16_t *list = block->list;
            const int32_t begin = u8 ? 0 : is_7 ? order->begin7[b] : order->begin[b];
            tfm__avx2_sums sums[1];
            for (line = 0; line < lines; line++, ahead += 64)
                TFM__PREFETCH(ahead), TFM__PREFETCH(ahead + stride);
            TFM__UNROLL
            for (i = 0; i < TFM__VECTORS; i++) {
                sums[0][i] = _mm256_set1_epi32(begin);
                if (b) sums[0][i] = _mm256_add_epi32(sums[0][i], kept[r][i]);
            }
            x += b * TFM__BLOCK;
            __asm__("" : "+r"(x)); /* otherwise clang computes x in each step */
            if (is_7) tfm__avx2_run7(sums[0], x, w, n, order->large[b]);
            else {
                list = tfm__avx2_run(sums[0], x, w, list, block->steps[0], TFM__FOURS, u8);
                list = tfm__avx2_run(sums[0], x, w, list, block->steps[1], TFM__TWOS, u8);
                if (!u8) tfm__avx2_run(sums[0], x, w, list, block->steps[2], TFM__SIGNED, u8);
            }
            if (ends) tfm__avx2_write(t, TFM_WEIGHT_TYPE_I8, sums, r, 1, 0, TFM__VECTORS);
            TFM__UNROLL
            for (i = 0; i < TFM__VECTORS; i++) kept[r][i] = sums[0][i];
        }
    } while (!ends);
}

/* Computes one or two rows, column by column. u8: no x is negative. */
TFM__AVX2 static TFM__INLINE void tfm__avx2_in_order(const tfm__tile *t, int first, int rows,
                                                     int u8) {
    const __m256i zero = _mm256_setzero_si256(), ones = _mm256_set1_epi16(1);
    const unsigned char *x = (const unsigned char *)t->x + first * TFM__X_STRIDE;
    const unsigned char *w0 = t->w[0], *w1 = t->w[1], *ahead = t->ahead;
    const int64_t stride = t->ahead_stride;
    tfm__avx2_sums sums[2];
    uint64_t large = 0;
    int64_t k;
    int r, i;
    TFM__UNROLL
    for (i = 0; i < rows * TFM__VECTORS; i++)
        sums[i / TFM__VECTORS][i % TFM__VECTORS] =
            _mm256_set1_epi32(tfm__avx2_order_of(t, first + i / TFM__VECTORS)->signs);
    for (k = 0; k < t->K; k += 8, x += 8, w0 += 128, w1 += 128, ahead += 128, large >>= 1) {
        const int more = t->K - k > 4 ? 64 : 0; /* x is zero there */
        for (r = 0; r < rows && k % TFM__BLOCK == 0; r++)
            large |= tfm__avx2_order_of(t, first + r)->large[k / TFM__BLOCK];
        if (rows > 1) {
            TFM__PREFETCH(ahead), TFM__PREFETCH(ahead + 64);
            TFM__PREFETCH(ahead + stride), TFM__PREFETCH(ahead + stride + 64);
        }
        TFM__UNROLL
        for (r = 0; r < rows; r++) {
            const unsigned char *row = x + r * TFM__X_STRIDE;
            __m256i x0 = _mm256_set1_epi32(tfm__avx2_four(row)), mask0 = x0;
            __m256i x1 = _mm256_set1_epi32(tfm__avx2_four(row + 4)), mask1 = x1;
            if (!u8) {
                mask0 = _mm256_cmpgt_epi8(zero, x0), x0 = _mm256_abs_epi8(x0);
                mask1 = _mm256_cmpgt_epi8(zero, x1), x1 = _mm256_abs_epi8(x1);
            }
            TFM__UNROLL
            for (i = 0; i < TFM__VECTORS; i += 2) {
                const unsigned char *w = i < 2 ? w0 : w1, *next = w + more;
                __m256i *to = sums[r] + i;
                if (large & 1 && u8) TFM__AVX2_STEP(to, w, next, 32, TIMES_U8, TWOS);
                else if (large & 1) TFM__AVX2_STEP(to, w, next, 32, TIMES_XOR, TWOS);
                else if (u8) TFM__AVX2_STEP(to, w, next, 32, TIMES_U8, FOURS);
                else TFM__AVX2_STEP(to, w, next, 32, TIMES_XOR, FOURS);
            }
        }
    }
    tfm__avx2_write(t, TFM_WEIGHT_TYPE_I8, sums, first, rows, 0, TFM__VECTORS);
}

TFM__AVX2 static void tfm__avx2_tile_int8(const tfm__tile *t) {
    int with_signs = 0, r;
    for (r = 0; r < t->rows; r++) with_signs += tfm__avx2_order_of(t, r)->signs != 0;
    if (t->rows >= TFM__WORTH_COPYING && with_signs == t->rows) tfm__avx2_by_lists(t, 0);
    else if (t->rows >= TFM__WORTH_COPYING && !with_signs) tfm__avx2_by_lists(t, 1);
    else
        for (r = 0; r < t->rows; r += 2)
            if (t->rows - r == 1 && !with_signs) tfm__avx2_in_order(t, r, 1, 1);
            else if (t->rows - r == 1) tfm__avx2_in_order(t, r, 1, 0);
            else if (!with_signs) tfm__avx2_in_order(t, r, 2, 1);
            else tfm__avx2_in_order(t, r, 2, 0);
}
static const tfm__tiling tfm__avx2_int8[] = {{TFM__MOST_ROWS, 1, 2, tfm__avx2_tile_int8, 0}};

#define TFM__V __m512
#define TFM__VL 16
#define TFM__ISA avx512
#define TFM__TARGET TFM__AVX512
#define TFM__TALL_TILE(X, type) X(type, 24, 1) /* as TFM__TALL says */
#define TFM__FLOAT_TILES(X, type)                                                                  \
    X(type, 12, 2) X(type, 8, 2) X(type, 4, 4) X(type, 2, 4) X(type, 1, 4)
#define TFM__V_SET(x) _mm512_set1_ps(x)
#define TFM__V_LOAD_SOME(p, n) _mm512_maskz_loadu_ps(tfm__avx512_mask(n), p)
#define TFM__V_STORE_SOME(p, v, n) _mm512_mask_storeu_ps(p, tfm__avx512_mask(n), v)
#define TFM__V_F16(p) _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)(const void *)(p)))
#define TFM__DOTS 16
#define TFM__V_STORE_SUMS(p, a) _mm512_storeu_ps(p, tfm__avx512_sum_lanes(a[0]))
#define TFM__V_FMA(a, b, c) _mm512_fmadd_ps(a, b, c)
#define TFM__V_MIN(a, b) _mm512_min_ps(a, b)
#define TFM__V_MAX(a, b) _mm512_max_ps(a, b)
#define TFM__V_MOST(v) _mm512_reduce_max_ps(v)
#define TFM__V_IF_LESS(a, b, x, y) _mm512_mask_blend_ps(_mm512_cmp_ps_mask(a, b, _CMP_LT_OQ), y, x)
#define TFM__V_ROUND(v) _mm512_roundscale_ps(v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC)
#define TFM__V_LDEXP(v, m) _mm512_scalef_ps(v, m)
#ifdef TFM__BF16
#define TFM__V_DOT_BF16(sum, x, w)                                                                 \
    __asm__("{vdpbf16ps %2, %1, %0|vdpbf16ps %0, %1, %2}" : "+v"(sum) : "v"(x), "v"(w))
#endif
#define TFM__MOMENTS tfm__avx2_moments
#define TFM__INT8_TARGET TFM__VNNI
#define TFM__INT8_TILES TFM__FLOAT_TILES
#define TFM__INT8_SPLIT 1
#define TFM__I __m512i
#define TFM__I_LOAD(p) _mm512_loadu_si512(p)
#define TFM__I_X(four) _mm512_set1_epi32(four)
#ifdef __clang__ /* it would treat operands of assembly as floats, and a Zen 4 waits for that */
#define TFM__I_DOT(sum, x, w) sum = _mm512_dpbusd_epi32(sum, x, w)
#else /* GCC 12 copies each sum around its own intrinsic. Operands for AT&T, then -masm=intel. */
#define TFM__I_DOT(sum, x, w)                                                                      \
    __asm__("{vpdpbusd %2, %1, %0|vpdpbusd %0, %1, %2}" : "+v"(sum) : "v"(x), "v"(w))
#endif
#define TFM__I_FLOATS(a, b, sums) _mm512_cvtepi32_ps(_mm512_sub_epi32(a, _mm512_loadu_si512(sums)))
#ifdef TFM__AMX
#define TFM__TILE_CONFIGURE(shape) __asm__ volatile("ldtilecfg %0" : : "m"(shape))
#define TFM__TILE_RELEASE() __asm__ volatile("tilerelease" : : : "memory")
#define TFM__TILE_ZERO(t) __asm__ volatile("{tilezero %%tmm" #t "|tilezero tmm" #t "}" ::)
#define TFM__TILE_MOVE(text, p, stride)                                                            \
    __asm__ volatile(text : : "r"(p), "r"((int64_t)(stride)) : "memory")
#define TFM__TILE_LOAD(t, p, stride)                                                               \
    TFM__TILE_MOVE("{tileloadd (%0,%1,1), %%tmm" #t "|tileloadd tmm" #t ", [%0+%1*1]}", p, stride)
#define TFM__TILE_STORE(t, p, stride)                                                              \
    TFM__TILE_MOVE("{tilestored %%tmm" #t ", (%0,%1,1)|tilestored [%0+%1*1], tmm" #t "}", p, stride)
#define TFM__TILE_PRODUCT(op, c, a, b)                                                             \
    __asm__ volatile("{" op " %%tmm" #b ", %%tmm" #a ", %%tmm" #c "|" op " tmm" #c ", tmm" #a      \
                     ", tmm" #b "}" ::)
#define TFM__TILE_DOT_INT8(c, a, b) TFM__TILE_PRODUCT("tdpbusd", c, a, b)
#define TFM__TILE_DOT_BF16(c, a, b) TFM__TILE_PRODUCT("tdpbf16ps", c, a, b)
#endif

TFM__AVX512 static TFM__INLINE void tfm__avx512_store_bytes(unsigned char *q, __m512 v, int bias) {
    __m512i i = _mm512_add_epi32(_mm512_cvtps_epi32(v), _mm512_set1_epi32(bias));
    __m128i bytes = bias ? _mm512_cvtusepi32_epi8(_mm512_max_epi32(i, _mm512_setzero_si512()))
                         : _mm512_cvtsepi32_epi8(i);
    _mm_storeu_si128((__m128i *)(void *)q, bytes);
}
#include TRANSFORMER_FILE
#if !defined(__clang__)
#pragma GCC diagnostic pop
#endif
#endif /* TFM__X86 */

/* ---- aarch64 ---- */

#ifdef TFM__NEON
#include <arm_neon.h>
/* Dot products of bytes, and products of matrices of bytes or of bf16, if the compiler has them or
   can be told to use them. They are assembly, because clang before 16 hides their intrinsics. */
#if defined(__ARM_FEATURE_DOTPROD)
#define TFM__NEON_DOT
#elif !defined(__clang__) && __GNUC__ >= 8
#define TFM__NEON_DOT __attribute__((target("arch=armv8.2-a+dotprod")))
#elif defined(__clang__) && __clang_major__ >= 14
#define TFM__NEON_DOT __attribute__((target("dotprod")))
#endif
#if defined(__ARM_FEATURE_DOTPROD) && defined(__ARM_FEATURE_MATMUL_INT8) &&                        \
    defined(__ARM_FEATURE_BF16_VECTOR_ARITHMETIC)
#define TFM__NEON_MMLA
#elif !defined(__clang__) && __GNUC__ >= 10
#define TFM__NEON_MMLA __attribute__((target("arch=armv8.2-a+dotprod+i8mm+bf16")))
#elif defined(__clang__) && __clang_major__ >= 14
#define TFM__NEON_MMLA __attribute__((target("dotprod,i8mm,bf16")))
#endif
#define TFM__NEON_MADD(op, lanes, sum, x, w)                                                       \
    __asm__(op " %0.4s, %1." lanes ", %2." lanes : "+w"(sum) : "w"(x), "w"(w))

#define TFM__V float32x4_t
#define TFM__VL 4
#define TFM__ISA neon
#define TFM__TARGET
#define TFM__FLOAT_TILES(X, type) X(type, 6, 1) X(type, 4, 1) X(type, 2, 2) X(type, 1, 2)
#define TFM__V_SET(x) vdupq_n_f32(x)
#define TFM__V_F16(p) vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16(p)))
#define TFM__V_STORE_F16(p, v) vst1_u16(p, vreinterpret_u16_f16(vcvt_f16_f32(v)))
#define TFM__V_FMA(a, b, c) vfmaq_f32(c, a, b)
/* NEON's own minimum and maximum give NaN if either operand is NaN. */
#define TFM__V_MIN(a, b) TFM__V_IF_LESS(a, b, a, b)
#define TFM__V_MAX(a, b) TFM__V_IF_LESS(b, a, a, b)
#define TFM__V_IF_LESS(a, b, x, y) vbslq_f32(vcltq_f32(a, b), x, y)
#define TFM__V_ROUND(v) vrndnq_f32(v)
#define TFM__INT8_TARGET
#define TFM__INT8_TILES(X, type) X(type, 4, 1) X(type, 2, 2) X(type, 1, 2)
#define TFM__INT8_SPLIT 1
#define TFM__I int32x4_t
#define TFM__I_LOAD(p) vreinterpretq_s32_u8(vld1q_u8(p))
#define TFM__I_X(four) vdupq_n_s32(four)
#define TFM__I_DOT(sum, x, w)                                                                      \
    sum = tfm__neon_madd(sum, vreinterpretq_s8_s32(x), vreinterpretq_s8_s32(w))
#define TFM__I_FLOATS(a, b, sums) vcvtq_f32_s32(a)

static TFM__INLINE void tfm__neon_store_bytes(unsigned char *q, float32x4_t v, int bias) {
    int16x4_t i = vqmovn_s32(vaddq_s32(vcvtnq_s32_f32(v), vdupq_n_s32(bias)));
    int16x8_t w = vcombine_s16(i, i);
    uint8x8_t bytes = bias ? vqmovun_s16(w) : vreinterpret_u8_s8(vqmovn_s16(w));
    uint32_t four = vget_lane_u32(vreinterpret_u32_u8(bytes), 0);
    memcpy(q, &four, sizeof four);
}
/* x is never -128, so the sum of two products fits 16 bits. */
static TFM__INLINE int32x4_t tfm__neon_madd(int32x4_t sum, int8x16_t x, int8x16_t w) {
    int16x8_t low = vmull_s8(vget_low_s8(x), vget_low_s8(w));
    return vpadalq_s16(sum, vpaddq_s16(low, vmull_high_s8(x, w)));
}
#ifdef TFM__NEON_DOT
#define TFM__SAME_VECTORS
#include TRANSFORMER_FILE
#define TFM__ISA neon_dot
#define TFM__INT8_TARGET TFM__NEON_DOT
#define TFM__INT8_TILES(X, type) X(type, 6, 1) X(type, 4, 1) X(type, 2, 2) X(type, 1, 2)
#define TFM__I_DOT(sum, x, w) TFM__NEON_MADD("sdot", "16b", sum, x, w)
#define TFM__I_FLOATS(a, b, sums) vcvtq_f32_s32(a)
#endif
#ifdef TFM__NEON_MMLA
#define TFM__SAME_VECTORS
#include TRANSFORMER_FILE
#define TFM__ISA neon_mmla
#define TFM__INT8_TARGET TFM__NEON_MMLA
#define TFM__INT8_TILES(X, type) X(type, 2, 2) X(type, 1, 2) /* few rows by dot products */
#define TFM__I_DOT(sum, x, w) TFM__NEON_MADD("sdot", "16b", sum, x, w)
#define TFM__I_MMLA_INT8(sum, x, w) TFM__NEON_MADD("smmla", "16b", sum, x, w)
#define TFM__I_MMLA_BF16(sum, x, w) TFM__NEON_MADD("bfmmla", "8h", sum, x, w)
#define TFM__I_FLOATS(a, b, sums) vcvtq_f32_s32(a)
#endif
#include TRANSFORMER_FILE

#ifdef TFM__NEON_MMLA
TFM__NEON_MMLA static void tfm__neon_narrow(unsigned char *to, const float *x, int64_t n) {
    for (; n > 0; n -= 4, x += 4, to += 8) {
        float32x4_t four = vdupq_n_f32(0);
        if (n >= 4) four = vld1q_f32(x);
        else memcpy(&four, x, (size_t)n * sizeof *x);
        __asm__("bfcvtn %0.4h, %0.4s" : "+w"(four));
        memcpy(to, &four, 8);
    }
}
#endif
#ifdef TFM__NEON_DOT
#if defined(__linux__)
#include <sys/auxv.h>
#elif defined(__APPLE__)
#include <sys/sysctl.h>
#endif
enum { TFM__CPU_DOT, TFM__CPU_I8MM, TFM__CPU_BF16 };
static int tfm__cpu_has(int feature) {
#if defined(__linux__) /* bits HWCAP_ASIMDDP, HWCAP2_I8MM and HWCAP2_BF16, which old headers lack */
    return feature == TFM__CPU_DOT ? (getauxval(AT_HWCAP) >> 20 & 1) != 0
                                   : (getauxval(AT_HWCAP2) >> (12 + feature) & 1) != 0;
#elif defined(__APPLE__)
    static const char *const names[] = {"hw.optional.arm.FEAT_DotProd", "hw.optional.arm.FEAT_I8MM",
                                        "hw.optional.arm.FEAT_BF16"};
    int has = 0;
    size_t size = sizeof has;
    return sysctlbyname(names[feature], &has, &size, NULL, 0) == 0 && has;
#elif defined(__ARM_FEATURE_MATMUL_INT8) && defined(__ARM_FEATURE_BF16_VECTOR_ARITHMETIC)
    (void)feature;
    return 1;
#elif defined(__ARM_FEATURE_DOTPROD)
    return feature == TFM__CPU_DOT;
#else
    (void)feature;
    return 0;
#endif
}
#endif
#endif /* TFM__NEON */

/* ---- WebAssembly, whose features are known when it is compiled ---- */

#ifdef TFM__WASM
#include <wasm_simd128.h>
typedef float tfm__wasm_floats __attribute__((vector_size(16)));
#define TFM__V tfm__wasm_floats
#define TFM__VL 4
#define TFM__ISA wasm
#define TFM__TARGET
#define TFM__FLOAT_TILES(X, type) X(type, 2, 1) X(type, 1, 2)
#define TFM__V_SET(x) (TFM__V) wasm_f32x4_splat(x)
#define TFM__V_FMA(a, b, c)                                                                        \
    (TFM__V) wasm_f32x4_add(wasm_f32x4_mul((v128_t)(a), (v128_t)(b)), (v128_t)(c))
#define TFM__V_MIN(a, b) (TFM__V) wasm_f32x4_pmin((v128_t)(b), (v128_t)(a)) /* a < b ? a : b */
#define TFM__V_MAX(a, b) (TFM__V) wasm_f32x4_pmax((v128_t)(b), (v128_t)(a))
#define TFM__V_IF_LESS(a, b, x, y)                                                                 \
    (TFM__V) wasm_v128_bitselect((v128_t)(x), (v128_t)(y), (v128_t)((a) < (b)))
#define TFM__V_ROUND(v) (TFM__V) wasm_f32x4_nearest((v128_t)(v))
#define TFM__INT8_TARGET
#define TFM__INT8_TILES(X, type) X(type, 2, 1) X(type, 1, 1)
#define TFM__INT8_SPLIT 2
#define TFM__I v128_t
#define TFM__I_LOAD(p) wasm_i16x8_load8x8(p)
#define TFM__I_X(four) wasm_i16x8_extend_low_i8x16(wasm_i32x4_splat(four))
#define TFM__I_DOT(sum, x, w) sum = wasm_i32x4_add(sum, wasm_i32x4_dot_i16x8(x, w))
#define TFM__I_FLOATS(a, b, sums)                                                                  \
    (TFM__V) wasm_f32x4_convert_i32x4(TFM__FOUR_LANES(a, b, 0, 2, 4, 6) +                          \
                                      TFM__FOUR_LANES(a, b, 1, 3, 5, 7))

static TFM__INLINE void tfm__wasm_store_bytes(unsigned char *q, TFM__V v, int bias) {
    v128_t i = wasm_i32x4_trunc_sat_f32x4(wasm_f32x4_nearest((v128_t)v));
    i = wasm_i32x4_add(i, wasm_i32x4_splat(bias));
    i = wasm_i16x8_narrow_i32x4(i, i);
    i = bias ? wasm_u8x16_narrow_i16x8(i, i) : wasm_i8x16_narrow_i16x8(i, i);
    wasm_v128_store32_lane(q, i, 0);
}
#include TRANSFORMER_FILE
#endif /* TFM__WASM */

/* ---- the kernel sets ---- */

static const tfm__kernels *tfm__kernel_set(int i) {
#ifdef TFM__X86
    const int avx2 = tfm__cpu_has(TFM__CPU_AVX2), avx512 = tfm__cpu_has(TFM__CPU_AVX512);
    const int vnni = avx512 && tfm__cpu_has(TFM__CPU_VNNI);
#endif
/* clang-format off */
/* Returns the set that follows if it is number i and the CPU has it. The set is written as struct
   tfm__kernels has its members: name, tiles, fused; zero point and split of int8; configure and
   narrow of BF16; the loops. */
#define TFM__SET(number, has, ...)                                                                 \
    if (i == (number) && (has)) {                                                                  \
        static const tfm__kernels set = {__VA_ARGS__};                                             \
        return &set;                                                                               \
    }
/* The loops of instruction set isa. Some take narrow_f16 from another. */
#define TFM__LOOPS(isa, f16)                                                                       \
    tfm__##isa##_dots_4x4, tfm__##isa##_dots, tfm__##isa##_weighted_sum, tfm__##isa##_exp_sum,     \
        tfm__##isa##_largest, tfm__##isa##_absmax, tfm__##isa##_scale, tfm__##isa##_add,           \
        tfm__##isa##_times, tfm__##isa##_quantize, tfm__##isa##_activate, tfm__##isa##_norm,       \
        tfm__##f16##_narrow_f16
    /* Where sets other than plain C are allowed but not fused, exact is plain C with their tiles of
       int8, which have the same bits. */
#if defined(TFM__X86)
    TFM__SET(0, TRANSFORMER_KERNELS > 0, "SSE2, fused",
             {NULL, tfm__plain_f32, NULL, NULL, tfm__sse2_int8},
             1, 0, NULL, NULL, NULL, TFM__LOOPS(plain, plain))
#elif defined(TFM__WASM)
    TFM__SET(0, TRANSFORMER_KERNELS > 0, "WASM SIMD128, fused",
             {NULL, tfm__plain_f32, NULL, NULL, tfm__wasm_int8},
             1, 0, NULL, NULL, NULL, TFM__LOOPS(plain, plain))
#endif
    TFM__SET(0, 1, "plain C",
             {NULL, tfm__plain_f32, NULL, NULL, tfm__plain_int8},
             1, 0, NULL, NULL, NULL, TFM__LOOPS(plain, plain))
#ifdef TFM__X86
    TFM__SET(1, 1, "SSE2",
             {NULL, tfm__sse2_f32, NULL, tfm__sse2_bf16, tfm__sse2_int8},
             0, 0, NULL, NULL, NULL, TFM__LOOPS(sse2, plain))
    TFM__SET(2, avx2, "AVX2 and FMA",
             {NULL, tfm__avx2_f32, tfm__avx2_f16, tfm__avx2_bf16, tfm__avx2_int8},
             1, 0, tfm__avx2_split, NULL, NULL, TFM__LOOPS(avx2, avx2))
    TFM__SET(3, avx512, "AVX-512",
             {NULL, tfm__avx512_f32, tfm__avx512_f16, tfm__avx512_bf16, tfm__avx2_int8},
             1, 0, tfm__avx2_split, NULL, NULL, TFM__LOOPS(avx512, avx2))
    TFM__SET(4, vnni, "AVX-512 with VNNI",
             {NULL, tfm__avx512_f32, tfm__avx512_f16, tfm__avx512_bf16, tfm__avx512_int8},
             1, 128, NULL, NULL, NULL, TFM__LOOPS(avx512, avx2))
#ifdef TFM__AVX_VNNI
    TFM__SET(4, avx2 && tfm__cpu_has(TFM__CPU_AVX_VNNI), "AVX2 with VNNI",
             {NULL, tfm__avx2_f32, tfm__avx2_f16, tfm__avx2_bf16, tfm__avx_vnni_int8},
             1, 128, NULL, NULL, NULL, TFM__LOOPS(avx2, avx2))
#endif
#ifdef TFM__BF16 /* if VDPBF16PS is faster than FMA: twice on AMD's Zen 4, half on an Intel */
    TFM__SET(5, vnni && tfm__cpu_has(TFM__CPU_BF16) && tfm__cpu_has(TFM__CPU_AMD),
             "AVX-512 with VNNI and BF16",
             {NULL, tfm__avx512_f32, tfm__avx512_f16, tfm__avx512_pairs, tfm__avx512_int8},
             1, 128, NULL, NULL, tfm__avx512_narrow, TFM__LOOPS(avx512, avx2))
#endif
#ifdef TFM__AMX
    TFM__SET(6, vnni && tfm__cpu_has(TFM__CPU_AMX), "AVX-512 with VNNI and AMX",
             {NULL, tfm__avx512_f32, tfm__avx512_f16, tfm__avx512_amx_bf16, tfm__avx512_amx_int8},
             1, 128, NULL, tfm__avx512_configure, tfm__avx512_narrow, TFM__LOOPS(avx512, avx2))
#endif
#elif defined(TFM__NEON)
    TFM__SET(1, 1, "NEON",
             {NULL, tfm__neon_f32, tfm__neon_f16, tfm__neon_bf16, tfm__neon_int8},
             1, 0, NULL, NULL, NULL, TFM__LOOPS(neon, neon))
#ifdef TFM__NEON_DOT
    TFM__SET(2, tfm__cpu_has(TFM__CPU_DOT), "NEON with dot product",
             {NULL, tfm__neon_f32, tfm__neon_f16, tfm__neon_bf16, tfm__neon_dot_int8},
             1, 0, NULL, NULL, NULL, TFM__LOOPS(neon, neon))
#endif
#ifdef TFM__NEON_MMLA
    TFM__SET(3, tfm__cpu_has(TFM__CPU_I8MM), "NEON with I8MM",
             {NULL, tfm__neon_f32, tfm__neon_f16, tfm__neon_bf16, tfm__neon_mmla_int8s},
             1, 0, NULL, NULL, NULL, TFM__LOOPS(neon, neon))
    TFM__SET(4, tfm__cpu_has(TFM__CPU_I8MM) && tfm__cpu_has(TFM__CPU_BF16),
             "NEON with I8MM and BF16",
             {NULL, tfm__neon_f32, tfm__neon_f16, tfm__neon_mmla_pairs, tfm__neon_mmla_int8s},
             1, 0, NULL, NULL, tfm__neon_narrow, TFM__LOOPS(neon, neon))
#endif
#elif defined(TFM__WASM)
    TFM__SET(1, 1, "WASM SIMD128",
             {NULL, tfm__wasm_f32, NULL, tfm__wasm_bf16, tfm__wasm_int8},
             0, 0, NULL, NULL, NULL, TFM__LOOPS(wasm, plain))
#endif
    /* clang-format on */
    return NULL;
}

#if defined(__clang__)
#pragma STDC FP_CONTRACT DEFAULT
#elif defined(__GNUC__) && !defined(__TINYC__)
#pragma GCC pop_options
#elif defined(_MSC_VER)
#pragma fp_contract(on)
#endif
#endif /* TRANSFORMER_IMPLEMENTATION */

/* ---- the template of the vector kernels: tiles of floats ----
   This part is compiled once for each instruction set, when the file includes itself (>>vectors).
   V: a vector of VL floats. V_LOAD_SOME, V_STORE_SOME: its first n numbers, at most VL; the others
   load as zeros. V_MAX and V_MIN return b if either operand is NaN. I: integers, sums of int8. The
   set's function store_bytes stores numbers plus bias as bytes: unsigned ones if bias is not 0. */

#ifdef TFM__ISA
#define TFM__PASTE(a, b) tfm__##a##_##b
#define TFM__PASTED(a, b) TFM__PASTE(a, b)
#define TFM__(name) TFM__PASTED(TFM__ISA, name)
#define TFM__PER_PANEL (TFM__PANEL / TFM__VL) /* vectors of a panel's width */
/* A tile with up to three rows too many is faster than two smaller tiles, which read w twice. */
#define TFM__LEAST(rows) ((rows) - ((rows) > 2) - 2 * ((rows) > 6))
#define TFM__TILING(type, rows, panels)                                                            \
    {rows, TFM__LEAST(rows), panels, TFM__(tile_##type##_##rows), 0},
#define TFM__INLINED TFM__TARGET static TFM__INLINE
#define TFM__INT8_INLINED TFM__INT8_TARGET static TFM__INLINE

#if TFM__VL > 1
typedef uint32_t TFM__(bits) __attribute__((vector_size(4 * TFM__VL)));
typedef float TFM__(unaligned) __attribute__((vector_size(4 * TFM__VL), aligned(1), may_alias));
#define TFM__V_LOAD(p) ((TFM__V) * (const TFM__(unaligned) *)(const void *)(p))
#define TFM__V_STORE(p, v) ((void)(*(TFM__(unaligned) *)(void *)(p) = (TFM__(unaligned))(v)))
#else
typedef uint32_t TFM__(bits); /* tests/library/test_kernels.c has vectors of one number */
#endif

#ifdef TFM__FLOAT_TILES
/* TALL_TILE has one panel, and its multiply-adds broadcast x from memory themselves, a third fewer
   instructions than with two panels and half the rows. Products use it on an Intel, which reads two
   vectors a cycle; a Zen 4 reads one and would be slower. */
#ifndef TFM__TALL_TILE
#define TFM__TALL_TILE(X, type)
#endif

/* Loads vector i of a column of a panel. type, rows and panels are constants where these functions
   are inlined. In TFM__PAIRS (bf16 times bf16) two columns are handled like one float. */
TFM__INLINED TFM__V TFM__(load_w)(const unsigned char *w, int i, int type, int odd) {
    const int at = odd * TFM__PANEL + i * TFM__VL;
    TFM__(bits) pairs;
    TFM__V v;
    if (type == TFM_WEIGHT_TYPE_F32 || type == TFM__PAIRS)
        return TFM__V_LOAD((const float *)(const void *)w + at);
#ifdef TFM__V_F16
    if (type == TFM_WEIGHT_TYPE_F16) return TFM__V_F16((const uint16_t *)(const void *)w + at);
#endif
    memcpy(&pairs, w + 4 * i * TFM__VL, sizeof pairs);
    pairs = odd ? pairs & 0xFFFF0000u : pairs << 16;
    memcpy(&v, &pairs, sizeof v);
    return v;
}

/* Adds one column of x times one of w; odd: the second of a pair. There is one loop over rows and
   vectors, because clang leaves sums in memory if an inner loop has a single iteration. */
TFM__INLINED void TFM__(tile_column)(TFM__V *acc, const float *x, const unsigned char *const *ws,
                                     int type, int odd, int rows, int panels) {
    TFM__V w[TFM__MOST_PANELS * TFM__PER_PANEL];
    const int wide = panels * TFM__PER_PANEL;
    int i, p;
    TFM__UNROLL
    for (p = 0; p < panels; p++) {
        TFM__UNROLL
        for (i = 0; i < TFM__PER_PANEL; i++)
            w[p * TFM__PER_PANEL + i] = TFM__(load_w)(ws[p], i, type, odd);
    }
    TFM__UNROLL
    for (i = 0; i < rows * wide; i++) {
        TFM__V v = TFM__V_SET(x[i / wide * (TFM__X_STRIDE / 4)]);
#ifdef TFM__V_DOT_BF16
        if (type == TFM__PAIRS) TFM__V_DOT_BF16(acc[i], v, w[i % wide]);
        else
#endif
            acc[i] = TFM__V_FMA(v, w[i % wide], acc[i]);
    }
}

TFM__INLINED void TFM__(tile)(const tfm__tile *t, int type, int rows, int panels) {
    TFM__V acc[(int)TFM__X_ROWS * TFM__MOST_PANELS * TFM__PER_PANEL];
    TFM__V bias[TFM__MOST_PANELS * TFM__PER_PANEL];
    const int wide = panels * TFM__PER_PANEL;
    const int step = type == TFM_WEIGHT_TYPE_BF16 || rows == TFM__TALL ? 2 : 1;
    const int size = type == TFM_WEIGHT_TYPE_F16 || type == TFM_WEIGHT_TYPE_BF16 ? 2 : 4;
    const int bytes = size * TFM__PANEL * step; /* of a step, at most two lines */
    const int64_t K = type == TFM__PAIRS ? (t->K + 1) / 2 : t->K;
    const float *x = (const float *)t->x;
    const unsigned char *w[TFM__MOST_PANELS], *ahead = t->ahead;
    int64_t k;
    int i;
    TFM__UNROLL
    for (i = 0; i < TFM__MOST_PANELS; i++) w[i] = t->w[i];
    TFM__UNROLL
    for (i = 0; i < rows * wide; i++) {
        const int is_row = i / wide < TFM__LEAST(rows) || i / wide < t->rows;
        acc[i] = t->begins || !is_row
                     ? TFM__V_SET(0.0f)
                     : TFM__V_LOAD(t->y + i / wide * t->y_stride + i % wide * TFM__VL);
    }
    for (k = step; k <= K; k += step, x += step) {
        /* Few rows of several panels are bound by memory bandwidth already. */
        if (rows > 4 || panels == 1) {
            TFM__PREFETCH(ahead);
            if (bytes > 64) TFM__PREFETCH(ahead + 64);
            if (panels > 1) TFM__PREFETCH(ahead + t->ahead_stride);
            ahead += bytes;
        }
        /* Otherwise clang gives x an index register, which splits load and multiply-add again. */
        if (rows == TFM__TALL) __asm__("" : "+r"(x));
        TFM__(tile_column)(acc, x, w, type, 0, rows, panels);
        if (step == 2) TFM__(tile_column)(acc, x + 1, w, type, 1, rows, panels);
        TFM__UNROLL
        for (i = 0; i < panels; i++) w[i] += bytes;
    }
    if (step == 2 && K % 2) TFM__(tile_column)(acc, x, w, type, 0, rows, panels);
    TFM__UNROLL
    for (i = 0; i < wide; i++) /* adding -0 changes no number */
        bias[i] = t->bias ? TFM__V_LOAD(t->bias + i * TFM__VL) : TFM__V_SET(-0.0f);
    TFM__UNROLL
    for (i = 0; i < rows * wide; i++)
        if (i / wide < TFM__LEAST(rows) || i / wide < t->rows)
            TFM__V_STORE(t->y + i / wide * t->y_stride + i % wide * TFM__VL,
                         acc[i] + bias[i % wide]);
}

/* Defines the functions for tiles of floats, and a table of them. */
#define TFM__FLOAT_TILE(type, rows, panels)                                                        \
    TFM__TARGET static void TFM__(tile_##type##_##rows)(const tfm__tile *t) {                      \
        TFM__(tile)(t, TFM__TYPE_##type, rows, panels);                                            \
    }
#define TFM__FLOAT_TABLE(type, TALL)                                                               \
    TALL(TFM__FLOAT_TILE, type)                                                                    \
    TFM__FLOAT_TILES(TFM__FLOAT_TILE, type)                                                        \
    static const tfm__tiling TFM__(type)[] = {TALL(TFM__TILING, type)                              \
                                                  TFM__FLOAT_TILES(TFM__TILING, type)};
#define TFM__NO_TILE(X, type)
TFM__FLOAT_TABLE(f32, TFM__TALL_TILE)
TFM__FLOAT_TABLE(bf16, TFM__TALL_TILE)
#ifdef TFM__V_F16
TFM__FLOAT_TABLE(f16, TFM__TALL_TILE)
#endif
#ifdef TFM__V_DOT_BF16
TFM__FLOAT_TABLE(pairs, TFM__NO_TILE)
#endif
#endif /* TFM__FLOAT_TILES */

/* ---- tiles of int8: each step adds four products to each sum ----
   INT8_SPLIT: partial sums of each output, side by side in I. I_LOAD loads four columns of w for VL
   / INT8_SPLIT outputs. I_X repeats four columns of x. I_FLOATS returns VL outputs as floats, from
   one or two vectors of sums, less the share of the zero point. A set without I_DOT has a tile of
   its own. */

#ifdef TFM__INT8_TILES
TFM__INT8_INLINED int32_t TFM__(four)(const unsigned char *p) {
    int32_t four;
    memcpy(&four, p, sizeof four);
    return four;
}

/* I_BYTES: bytes of w in a vector. */
#define TFM__I_BYTES (4 * TFM__VL / TFM__INT8_SPLIT)
typedef TFM__I TFM__(sums)[2 * TFM__PER_PANEL * TFM__INT8_SPLIT]; /* of a row */

/* Writes y from the sums of some rows, the first of which is row `first` of the tile, for some
   vectors of outputs from output o on. The sums are of int8, or of bf16 by AMX. */
TFM__INT8_INLINED void TFM__(write)(const tfm__tile *t, int type, TFM__(sums) * sums, int first,
                                    int rows, int64_t o, int outputs) {
    int r, i;
    TFM__UNROLL
    for (i = 0; i < outputs; i++, o += TFM__VL) {
        TFM__V scale = TFM__V_SET(1.0f), bias = TFM__V_SET(-0.0f);
        if (type == TFM_WEIGHT_TYPE_I8) scale = TFM__V_LOAD(t->w_scales + o);
        if (t->bias) bias = TFM__V_LOAD(t->bias + o);
        TFM__UNROLL
        for (r = 0; r < rows; r++) {
            float *y = t->y + (first + r) * t->y_stride + o;
            TFM__I *sum = sums[r] + i * TFM__INT8_SPLIT;
            TFM__V v;
            if (r >= TFM__LEAST(rows) && first + r >= t->rows) continue;
            if (type == TFM_WEIGHT_TYPE_I8) {
                v = TFM__I_FLOATS(sum[0], sum[TFM__INT8_SPLIT - 1], t->block_sums + o);
                v = v * (TFM__V_SET(t->x_scales[first + r]) * scale);
                if (!t->begins) v = TFM__V_LOAD(y) + v;
            } else memcpy(&v, sum, sizeof v); /* the sums began at y */
            TFM__V_STORE(y, v + bias);
        }
    }
}

#ifdef TFM__I_DOT
/* Adds four columns at a time of one panel or two, for each of some steps, which have sums of their
   own. One loop goes over all sums, as in tile_column. */
TFM__INT8_INLINED void TFM__(step_int8)(TFM__(sums) * sums, const unsigned char *x,
                                        const unsigned char *w0, const unsigned char *w1, int steps,
                                        int rows, int panels, int vectors) {
    const int wide = panels * vectors;
    TFM__I w[8 * 2 * TFM__PER_PANEL * TFM__INT8_SPLIT];
    int i;
    TFM__UNROLL
    for (i = 0; i < steps * wide; i++)
        w[i] = TFM__I_LOAD((i % wide < vectors ? w0 : w1) + i / wide * 4 * TFM__PANEL +
                           i % vectors * TFM__I_BYTES);
    TFM__UNROLL
    for (i = 0; i < steps * rows * wide; i++) {
        const int s = i / (rows * wide), r = i / wide % rows, v = i % wide;
        const unsigned char *four = x + r * TFM__X_STRIDE + 4 * s;
        TFM__I_DOT(sums[s * rows + r][v], TFM__I_X(TFM__(four)(four)), w[s * wide + v]);
    }
}

/* Adds all columns of one panel or two, four at a time for each of some steps. */
TFM__INT8_INLINED void TFM__(columns)(const tfm__tile *t, TFM__(sums) * sums,
                                      const unsigned char *w0, const unsigned char *w1, int steps,
                                      int rows, int panels, int vectors) {
    const unsigned char *x = (const unsigned char *)t->x, *x_end = x + (t->K + 3) / 4 * 4;
    const unsigned char *ahead = t->ahead;
    for (; x_end - x >= 4 * steps; x += 4 * steps) {
        if (rows > 4) {
            TFM__PREFETCH(ahead);
            if (panels > 1) TFM__PREFETCH(ahead + t->ahead_stride);
            ahead += 4 * TFM__PANEL;
        }
        TFM__(step_int8)(sums, x, w0, w1, steps, rows, panels, vectors);
        w0 += 4 * steps * TFM__PANEL, w1 += 4 * steps * TFM__PANEL;
    }
    for (; steps > 1 && x != x_end; x += 4, w0 += 4 * TFM__PANEL)
        TFM__(step_int8)(sums, x, w0, w0, 1, rows, 1, vectors);
}

/* Computes a tile of int8. Many rows go by panels side by side. Few rows wait for w, and memory is
   fastest when it is read from end to end, so they go by one panel after the other. Each addition
   waits for the one before it in its sum, so few rows keep at least eight sums, if necessary over
   different columns (steps), and add them up at the end. */
TFM__INT8_INLINED void TFM__(tile_int8)(const tfm__tile *t, int rows, int panels) {
    const int parts = rows > 1 ? TFM__INT8_SPLIT : 1; /* of a panel, so that sums fit registers */
    const int outputs = TFM__PER_PANEL / parts, vectors = outputs * TFM__INT8_SPLIT;
    const int side = rows > 4 ? panels : 1, sums_of_step = rows * vectors * side;
    const int steps = rows > 4 || sums_of_step >= 8 ? 1 : 8 / sums_of_step;
    int part, i, s;
    for (part = 0; part < parts; part++)
        for (i = 0; i < panels; i += side) {
            const int o = part * outputs * TFM__VL;
            const unsigned char *w0 = t->w[i] + 4 * o, *w1 = t->w[side > 1] + 4 * o;
            TFM__(sums) sums[TFM__X_ROWS]; /* [steps, rows] */
            TFM__UNROLL
            for (s = 0; s < steps * rows * side * vectors; s++)
                sums[s / (side * vectors)][s % (side * vectors)] = (TFM__I)TFM__V_SET(0.0f);
            TFM__(columns)(t, sums, w0, w1, steps, rows, side, vectors);
            TFM__UNROLL
            for (s = rows * vectors; s < steps * rows * vectors; s++) {
                TFM__I *sum = &sums[s / vectors % rows][s % vectors];
                TFM__(bits) more = (TFM__(bits))sums[s / vectors][s % vectors];
                *sum = (TFM__I)(more + (TFM__(bits))sum[0]);
            }
            TFM__(write)(t, TFM_WEIGHT_TYPE_I8, sums, 0, rows, i * TFM__PANEL + o, side * outputs);
        }
}

#define TFM__INT8_TILE(type, rows, panels)                                                         \
    TFM__INT8_TARGET static void TFM__(tile_##type##_##rows)(const tfm__tile *t) {                 \
        TFM__(tile_##type)(t, rows, panels);                                                       \
    }
TFM__INT8_TILES(TFM__INT8_TILE, int8)
static const tfm__tiling TFM__(int8)[] = {TFM__INT8_TILES(TFM__TILING, int8)};
#endif /* TFM__I_DOT */
#endif /* TFM__INT8_TILES */

/* ---- tiles of 2 by 2: an instruction multiplies two rows of x by two outputs ----
   I_MMLA_INT8 adds 8 products to each of four sums, I_MMLA_BF16 adds 4. The vectors that they
   multiply have 8 bytes of each row, or of each output: two groups of a panel. */

#ifdef TFM__I_MMLA_INT8
/* Multiplies 8 bytes of each row. Without more, zeros stand for the second group of w. */
TFM__INT8_INLINED void TFM__(mmla_step)(TFM__(sums) * acc, const unsigned char *x,
                                        const unsigned char *w, int more, int type, int rows,
                                        int vectors) {
    TFM__I v[2 * TFM__PER_PANEL], pair;
    int i;
    TFM__UNROLL
    for (i = 0; i < vectors; i += 2) {
        TFM__I a = TFM__I_LOAD(w + 8 * i), b = a ^ a;
        if (more) b = TFM__I_LOAD(w + 4 * TFM__PANEL + 8 * i);
        v[i] = TFM__FOUR_LANES(a, b, 0, 4, 1, 5), v[i + 1] = TFM__FOUR_LANES(a, b, 2, 6, 3, 7);
    }
    pair = v[0];
    TFM__UNROLL
    for (i = 0; i < rows / 2 * vectors; i++) {
        TFM__I *sum = &acc[i / vectors][i % vectors];
        const unsigned char *row = x + i / vectors * 2 * TFM__X_STRIDE;
        if (i % vectors == 0)
            pair = TFM__FOUR_LANES(TFM__I_LOAD(row), TFM__I_LOAD(row + TFM__X_STRIDE), 0, 1, 4, 5);
        if (type == TFM_WEIGHT_TYPE_I8) TFM__I_MMLA_INT8(*sum, pair, v[i % vectors]);
        else TFM__I_MMLA_BF16(*sum, pair, v[i % vectors]);
    }
}

/* Brings sums of two rows by four outputs from 2 by 2 into the order of rows, or back. */
TFM__INT8_INLINED void TFM__(mmla_turn)(TFM__(sums) * to, TFM__(sums) * from, int rows, int vectors,
                                        int back) {
    int i;
    TFM__UNROLL
    for (i = 0; i < rows / 2 * (vectors / 2); i++) {
        const int r = i / (vectors / 2), v = i % (vectors / 2);
        TFM__I *a = back ? &from[2 * r][v] : &from[r][2 * v];
        TFM__I *b = back ? &from[2 * r + 1][v] : a + 1;
        *(back ? &to[r][2 * v] : &to[2 * r][v]) = TFM__FOUR_LANES(*a, *b, 0, 1, 4, 5);
        *(back ? &to[r][2 * v + 1] : &to[2 * r + 1][v]) = TFM__FOUR_LANES(*a, *b, 2, 3, 6, 7);
    }
}

/* Computes a tile of one panel. Sums of int8 start at zero; those of bf16 go on from y. */
TFM__INT8_INLINED void TFM__(mmla)(const tfm__tile *t, int type, int rows) {
    const int vectors = rows > 4 ? TFM__PER_PANEL : 2 * TFM__PER_PANEL; /* sums fit registers */
    const int64_t bytes = (t->K * (type == TFM_WEIGHT_TYPE_I8 ? 1 : 2) + 3) / 4 * 4;
    const unsigned char *ahead = t->ahead;
    int o, r;
    for (o = 0; o < TFM__PANEL; o += 2 * vectors) {
        const unsigned char *x = (const unsigned char *)t->x, *w = t->w[0] + 4 * o;
        TFM__(sums) sums[8], acc[4];
        int64_t k;
        memset(sums, 0, sizeof sums);
        for (r = 0; type != TFM_WEIGHT_TYPE_I8 && !t->begins && r < t->rows; r++)
            memcpy(sums[r], t->y + r * t->y_stride + o, (size_t)(8 * vectors));
        TFM__(mmla_turn)(acc, sums, rows, vectors, 1);
        for (k = 8; k <= bytes; k += 8, x += 8, w += 8 * TFM__PANEL) {
            if (rows > 4) TFM__PREFETCH(ahead);
            ahead += 4 * TFM__PANEL; /* half a panel while o is 0, the other half afterwards */
            TFM__(mmla_step)(acc, x, w, 1, type, rows, vectors);
        }
        if (bytes % 8) TFM__(mmla_step)(acc, x, w, 0, type, rows, vectors);
        TFM__(mmla_turn)(sums, acc, rows, vectors, 0);
        for (r = 0; r < t->rows; r++) TFM__(write)(t, type, sums + r, r, 1, o, vectors / 2);
    }
}

#define TFM__MMLA_TILE(type, TYPE, rows)                                                           \
    TFM__INT8_TARGET static void TFM__(mmla_##type##_##rows)(const tfm__tile *t) {                 \
        TFM__(mmla)(t, TYPE, rows);                                                                \
    }
TFM__MMLA_TILE(int8, TFM_WEIGHT_TYPE_I8, 8)
TFM__MMLA_TILE(int8, TFM_WEIGHT_TYPE_I8, 4)
TFM__MMLA_TILE(bf16, TFM_WEIGHT_TYPE_BF16, 8)
TFM__MMLA_TILE(bf16, TFM_WEIGHT_TYPE_BF16, 4)
TFM__MMLA_TILE(bf16, TFM_WEIGHT_TYPE_BF16, 2)
static const tfm__tiling TFM__(int8s)[] = {{8, 5, 1, TFM__(mmla_int8_8), 0},
                                           {4, 3, 1, TFM__(mmla_int8_4), 0},
                                           TFM__INT8_TILES(TFM__TILING, int8)};
static const tfm__tiling TFM__(pairs)[] = {{8, 5, 1, TFM__(mmla_bf16_8), 0},
                                           {4, 3, 1, TFM__(mmla_bf16_4), 0},
                                           {2, 1, 1, TFM__(mmla_bf16_2), 0}};
#endif /* TFM__I_MMLA_INT8 */

/* ---- tiles of AMX: 16 groups of a panel fill a tile register ----
   TILE_LOAD and TILE_STORE move 16 rows of 64 bytes, stride bytes apart. TILE_DOT_INT8 and
   TILE_DOT_BF16 add 16 rows of x times a panel to the sums. Registers 0 to 3 are sums, of 32 rows
   by two panels or of 16 rows by four. Instructions name registers, so no loop can go over them. */

#ifdef TFM__TILE_LOAD
/* Sets up all eight registers with 16 rows of 64 bytes, or releases them. */
static void TFM__(configure)(int on) {
    unsigned char shape[64] = {1};
    int i;
    for (i = 0; i < 8; i++) shape[16 + 2 * i] = 64, shape[48 + i] = 16;
    if (on) TFM__TILE_CONFIGURE(shape);
    else TFM__TILE_RELEASE();
}

/* Multiplies int8 or bf16, as the function's argument type says. */
#define TFM__TILE_DOT(c, a, b)                                                                     \
    do {                                                                                           \
        if (type == TFM_WEIGHT_TYPE_I8) TFM__TILE_DOT_INT8(c, a, b);                               \
        else TFM__TILE_DOT_BF16(c, a, b);                                                          \
    } while (0)

/* Multiplies 64 bytes of each of 32 rows of x by two panels. */
TFM__INT8_INLINED void TFM__(step_32)(const unsigned char *x, const unsigned char *const *w,
                                      int64_t at, tfm_weight_type type) {
    TFM__TILE_LOAD(4, x, TFM__X_STRIDE);
    TFM__TILE_LOAD(6, w[0] + at, 64);
    TFM__TILE_LOAD(7, w[1] + at, 64);
    TFM__TILE_LOAD(5, x + 16 * TFM__X_STRIDE, TFM__X_STRIDE);
    TFM__TILE_DOT(0, 4, 6);
    TFM__TILE_DOT(1, 4, 7);
    TFM__TILE_DOT(2, 5, 6);
    TFM__TILE_DOT(3, 5, 7);
}
/* Multiplies 64 bytes of each of 16 rows of x by four panels. */
TFM__INT8_INLINED void TFM__(step_16)(const unsigned char *x, const unsigned char *const *w,
                                      int64_t at, tfm_weight_type type) {
    TFM__TILE_LOAD(4, x, TFM__X_STRIDE);
    TFM__TILE_LOAD(5, w[0] + at, 64);
    TFM__TILE_LOAD(6, w[1] + at, 64);
    TFM__TILE_LOAD(7, w[2] + at, 64);
    TFM__TILE_DOT(0, 4, 5);
    TFM__TILE_LOAD(5, w[3] + at, 64);
    TFM__TILE_DOT(1, 4, 6);
    TFM__TILE_DOT(2, 4, 7);
    TFM__TILE_DOT(3, 4, 5);
}

/* Adds all columns to the sums. Rows of x end in zeros up to whole tiles; w gets them in a copy. */
TFM__INT8_INLINED void TFM__(sum_up)(const tfm__tile *t, tfm_weight_type type, int rows,
                                     int panels) {
    const unsigned char *x = (const unsigned char *)t->x, *w[TFM__MOST_PANELS];
    unsigned char last[TFM__MOST_PANELS][16 * 64];
    int64_t bytes = (type == TFM_WEIGHT_TYPE_I8 ? t->K + 3 : 2 * t->K + 3) / 4 * 4, k;
    int i;
    for (k = 0; k + 64 <= bytes; k += 64)
        if (rows == 32) TFM__(step_32)(x + k, t->w, 16 * k, type);
        else TFM__(step_16)(x + k, t->w, 16 * k, type);
    if (k == bytes) return;
    for (i = 0; i < panels; i++) {
        memset(last[i], 0, sizeof last[i]);
        w[i] = (unsigned char *)memcpy(last[i], t->w[i] + 16 * k, (size_t)(16 * (bytes - k)));
    }
    if (rows == 32) TFM__(step_32)(x + k, w, 0, type);
    else TFM__(step_16)(x + k, w, 0, type);
}

/* Computes a tile. Sums of int8 are integers and start at zero; those of bf16 are floats and go on
   from y. Whole tiles of bf16 without a bias need no change, so the registers read and write y. */
TFM__INT8_INLINED void TFM__(amx)(const tfm__tile *t, tfm_weight_type type, int rows, int panels) {
    TFM__(sums) sums[TFM__MOST_ROWS]; /* of two panels; with 16 rows the other two follow */
    int is_y = type == TFM_WEIGHT_TYPE_BF16 && !t->bias && t->rows == rows, r, p;
    int64_t stride = 2 * TFM__PANEL * 4, half = 16 * stride; /* half: to registers 2 and 3 */
    unsigned char *at = (unsigned char *)sums;
#ifdef TFM__UNSEEN_STORES
    is_y = 0;
#endif
    if (is_y) {
        at = (unsigned char *)t->y, stride = 4 * t->y_stride;
        half = rows == 32 ? 16 * stride : 2 * TFM__PANEL * 4;
    }
    if (type == TFM_WEIGHT_TYPE_I8 || t->begins) {
        TFM__TILE_ZERO(0);
        TFM__TILE_ZERO(1);
        TFM__TILE_ZERO(2);
        TFM__TILE_ZERO(3);
    } else {
        if (!is_y) memset(sums, 0, sizeof sums);
        for (p = 0; p < panels && !is_y; p += 2)
            for (r = 0; r < t->rows; r++)
                memcpy(sums[8 * p + r], t->y + r * t->y_stride + p * TFM__PANEL, sizeof *sums);
        TFM__TILE_LOAD(0, at, stride);
        TFM__TILE_LOAD(1, at + 64, stride);
        TFM__TILE_LOAD(2, at + half, stride);
        TFM__TILE_LOAD(3, at + half + 64, stride);
    }
    TFM__(sum_up)(t, type, rows, panels);
#ifdef TFM__UNSEEN_STORES
    memset(sums, 0, sizeof sums);
#endif
    TFM__TILE_STORE(0, at, stride);
    TFM__TILE_STORE(1, at + 64, stride);
    TFM__TILE_STORE(2, at + half, stride);
    TFM__TILE_STORE(3, at + half + 64, stride);
    for (p = 0; p < panels && !is_y; p += 2)
        for (r = 0; r < t->rows; r++)
            TFM__(write)(t, (int)type, sums + 8 * p + r, r, 1, p * TFM__PANEL, 2 * TFM__PER_PANEL);
}

#define TFM__AMX_TILE(type, TYPE, rows, panels)                                                    \
    TFM__INT8_TARGET static void TFM__(amx_##type##_##rows)(const tfm__tile *t) {                  \
        TFM__(amx)(t, TYPE, rows, panels);                                                         \
    }
TFM__AMX_TILE(int8, TFM_WEIGHT_TYPE_I8, 32, 2)
TFM__AMX_TILE(int8, TFM_WEIGHT_TYPE_I8, 16, 4)
TFM__AMX_TILE(bf16, TFM_WEIGHT_TYPE_BF16, 32, 2)
TFM__AMX_TILE(bf16, TFM_WEIGHT_TYPE_BF16, 16, 4)
/* Few rows of int8 are as fast with AVX-512, which gives the same sums. bf16 has different sums
   there, so its tiles run for all numbers of rows. */
static const tfm__tiling TFM__(amx_int8)[] = {{32, 21, 2, TFM__(amx_int8_32), 1},
                                              {16, 5, 4, TFM__(amx_int8_16), 1},
                                              TFM__INT8_TILES(TFM__TILING, int8)};
static const tfm__tiling TFM__(amx_bf16)[] = {{32, 17, 2, TFM__(amx_bf16_32), 1},
                                              {16, 1, 4, TFM__(amx_bf16_16), 1}};
#endif /* TFM__TILE_LOAD */

/* ---- loops, for the sets that do not share those of another ---- */

#if defined(TFM__FLOAT_TILES) && defined(TFM__V_ROUND)
#ifndef TFM__V_LOAD_SOME /* wider vectors have masks */
#define TFM__V_LOAD_SOME(p, n) TFM__(load_some)(p, n)
#define TFM__V_STORE_SOME(p, v, n) TFM__(store_some)(p, v, n)
TFM__INLINED TFM__V TFM__(load_some)(const float *p, int64_t n) {
    float some[TFM__VL];
    if (n == TFM__VL) return TFM__V_LOAD(p);
    memset(some, 0, sizeof some);
    memcpy(some, p, (size_t)n * sizeof *some);
    return TFM__V_LOAD(some);
}
TFM__INLINED void TFM__(store_some)(float *p, TFM__V v, int64_t n) {
    float some[TFM__VL];
    if (n == TFM__VL) {
        TFM__V_STORE(p, v);
        return;
    }
    TFM__V_STORE(some, v);
    memcpy(p, some, (size_t)n * sizeof *some);
}
#endif
#ifndef TFM__V_LDEXP /* v 2^m by two factors, which are normal numbers */
#define TFM__V_LDEXP(v, m) TFM__(ldexp)(v, m)
/* 2^m: 2^23 and the biased exponent as a float have the exponent in their lowest bits. */
TFM__INLINED TFM__V TFM__(exp2)(TFM__V m) {
    return (TFM__V)((TFM__(bits))(m + TFM__V_SET(8388608.0f + 127.0f)) << 23);
}
TFM__INLINED TFM__V TFM__(ldexp)(TFM__V v, TFM__V m) {
    TFM__V half = TFM__V_ROUND(m * TFM__V_SET(0.5f));
    return v * TFM__(exp2)(half) * TFM__(exp2)(m - half);
}
#endif
#ifndef TFM__V_MOST /* none of them is NaN */
#define TFM__V_MOST(v) TFM__(most)(v)
TFM__INLINED float TFM__(most)(TFM__V v) {
    float lanes[TFM__VL];
    TFM__V_STORE(lanes, v);
    return tfm__plain_largest(lanes, TFM__VL);
}
#endif

/* tfm__exp_of of n vectors, step by step: each step has to wait for the one before it in its vector
   only. In this order of MIN and MAX, NaN stays NaN. n is a constant where this is inlined. */
TFM__INLINED void TFM__(exps)(TFM__V *x, int n) {
    TFM__V m[4], r[4], q[4];
    int i, l;
    TFM__UNROLL
    for (l = 0; l < n; l++) x[l] = TFM__V_MIN(TFM__V_SET(104.0f), x[l]);
    TFM__UNROLL
    for (l = 0; l < n; l++) x[l] = TFM__V_MAX(TFM__V_SET(-104.0f), x[l]);
    TFM__UNROLL
    for (l = 0; l < n; l++) m[l] = TFM__V_ROUND(x[l] * TFM__V_SET(1.44269504f));
    TFM__UNROLL
    for (l = 0; l < n; l++) r[l] = TFM__V_FMA(m[l], TFM__V_SET(-0.693359375f), x[l]);
    TFM__UNROLL
    for (l = 0; l < n; l++) r[l] = TFM__V_FMA(m[l], TFM__V_SET(2.12194440e-4f), r[l]);
    TFM__UNROLL
    for (l = 0; l < n; l++) q[l] = TFM__V_SET(tfm__exp_q[6]);
    TFM__UNROLL
    for (i = 6 * n - 1; i >= 0; i--)
        q[i % n] = TFM__V_FMA(q[i % n], r[i % n], TFM__V_SET(tfm__exp_q[i / n]));
    TFM__UNROLL
    for (l = 0; l < n; l++) x[l] = TFM__V_LDEXP(q[l], m[l]);
}
TFM__INLINED TFM__V TFM__(exp)(TFM__V x) {
    TFM__(exps)(&x, 1);
    return x;
}

/* tfm__erf_of */
TFM__INLINED TFM__V TFM__(erf)(TFM__V x) {
    const TFM__V zero = TFM__V_SET(0.0f);
    TFM__V square = x * x, size = TFM__V_MAX(zero - x, x);
    TFM__V p = TFM__V_SET(tfm__erf_p[6]), q = TFM__V_SET(tfm__erf_q[8]);
    int i;
    size = TFM__V_MIN(TFM__V_SET(4.0f), size);
    for (i = 5; i >= 0; i--) p = TFM__V_FMA(p, square, TFM__V_SET(tfm__erf_p[i]));
    for (i = 7; i >= 0; i--) q = TFM__V_FMA(q, size, TFM__V_SET(tfm__erf_q[i]));
    q = TFM__V_SET(1.0f) - TFM__(exp)(q);
    q = TFM__V_IF_LESS(x, zero, zero - q, q);
    return TFM__V_IF_LESS(size, TFM__V_SET(0.9f), TFM__V_FMA(p, x, x), q);
}

/* Returns how many of the columns that are left are in vector i. */
static TFM__INLINE int64_t TFM__(some)(int64_t columns, int i) {
    int64_t left = columns - i * TFM__VL;
    return left < 0 ? 0 : left > TFM__VL ? TFM__VL : left;
}

TFM__TARGET static double TFM__(exp_sum)(float *y, const float *x, float max, int64_t n) {
    const TFM__V shift = TFM__V_SET(max);
    double sum = 0;
    int64_t i = 0;
    int l;
    while (i < n) {
        int64_t end = tfm__min(n, i + TFM__SUM_RUN);
        TFM__V total[TFM__PER_PANEL];
        float lanes[TFM__LANES];
        TFM__UNROLL
        for (l = 0; l < TFM__PER_PANEL; l++) total[l] = TFM__V_SET(0.0f);
        for (; i + 4 * TFM__VL <= end; i += 4 * TFM__VL) {
            TFM__V e[4];
            TFM__UNROLL
            for (l = 0; l < 4; l++) e[l] = TFM__V_LOAD(x + i + l * TFM__VL) - shift;
            TFM__(exps)(e, 4);
            TFM__UNROLL
            for (l = 0; l < 4; l++) {
                if (y) TFM__V_STORE(y + i + l * TFM__VL, e[l]);
                total[l % TFM__PER_PANEL] = total[l % TFM__PER_PANEL] + e[l];
            }
        }
        for (; i + TFM__LANES <= end; i += TFM__LANES) {
            TFM__UNROLL
            for (l = 0; l < TFM__PER_PANEL; l++) {
                TFM__V e = TFM__(exp)(TFM__V_LOAD(x + i + l * TFM__VL) - shift);
                if (y) TFM__V_STORE(y + i + l * TFM__VL, e);
                total[l] = total[l] + e;
            }
        }
        TFM__UNROLL
        for (l = 0; l < TFM__PER_PANEL; l++) TFM__V_STORE(lanes + l * TFM__VL, total[l]);
        for (l = 0; i < end; i += TFM__VL, l += TFM__VL) {
            int64_t some = tfm__min(TFM__VL, end - i), k;
            float rest[TFM__VL];
            TFM__V e = TFM__(exp)(TFM__V_LOAD_SOME(x + i, some) - shift);
            TFM__V_STORE(rest, e);
            if (y) TFM__V_STORE_SOME(y + i, e, some);
            for (k = 0; k < some; k++) lanes[l + k] += rest[k];
        }
        i = end;
        sum += (double)tfm__sum_lanes(lanes);
    }
    return sum;
}

/* Keeps four vectors of maxima, because each maximum has to wait for the last one of its vector. */
TFM__TARGET static float TFM__(largest)(const float *x, int64_t n) {
    TFM__V max[4];
    int64_t i, l;
    if (n < TFM__VL) return tfm__plain_largest(x, n);
    TFM__UNROLL
    for (l = 0; l < 4; l++) max[l] = TFM__V_SET(-INFINITY);
    for (i = 0; i + 4 * TFM__VL <= n; i += 4 * TFM__VL) TFM__UNROLL
    for (l = 0; l < 4; l++) max[l] = TFM__V_MAX(TFM__V_LOAD(x + i + l * TFM__VL), max[l]);
    for (; i + TFM__VL <= n; i += TFM__VL) max[0] = TFM__V_MAX(TFM__V_LOAD(x + i), max[0]);
    max[1] = TFM__V_MAX(TFM__V_LOAD(x + n - TFM__VL), max[1]); /* the last vector overlaps */
    max[0] = TFM__V_MAX(TFM__V_MAX(max[0], max[1]), TFM__V_MAX(max[2], max[3]));
    return TFM__V_MOST(max[0]);
}

TFM__TARGET static float TFM__(absmax)(const float *x, int64_t n) {
    TFM__V max = TFM__V_SET(0.0f), least = TFM__V_SET(0.0f);
    int64_t i;
    for (i = 0; i < n; i += TFM__VL) {
        TFM__V v = TFM__V_LOAD_SOME(x + i, tfm__min(TFM__VL, n - i));
        max = TFM__V_MAX(v, max), least = TFM__V_MIN(v, least);
    }
    return TFM__V_MOST(TFM__V_MAX(TFM__V_SET(0.0f) - least, max));
}

#define TFM_X(name, operand, number, vector, op)                                                   \
    TFM__TARGET static void TFM__(name)(float *x, operand, int64_t n) {                            \
        int64_t i;                                                                                 \
        for (i = 0; i + TFM__VL <= n; i += TFM__VL)                                                \
            TFM__V_STORE(x + i, TFM__V_LOAD(x + i) op TFM__V_##vector);                            \
        for (; i < n; i++) x[i] = x[i] op number;                                                  \
    }
TFM__ELEMENTWISE_TABLE(TFM_X)
#undef TFM_X

TFM__TARGET static void TFM__(quantize)(unsigned char *q, const float *x, float factor, int bias,
                                        int64_t n) {
    const TFM__V f = TFM__V_SET(factor), least = TFM__V_SET(-127.0f), most = TFM__V_SET(127.0f);
    int64_t i;
    for (i = 0; i < n; i += TFM__VL) {
        TFM__V v = i + TFM__VL <= n ? TFM__V_LOAD(x + i) : TFM__V_LOAD_SOME(x + i, n - i);
        v = TFM__V_MIN(most, TFM__V_MAX(v * f, least)); /* in this order NaN becomes -127 */
        TFM__(store_bytes)(q + i, v, bias);
    }
}

/* Loads the first n numbers of vector l of a row, and zeros after them. */
TFM__INLINED TFM__V TFM__(load_column)(const void *row, int l, int64_t n, int is_f16) {
    const uint16_t *from = (const uint16_t *)row + l * TFM__VL;
#ifdef TFM__V_F16
    uint16_t some[TFM__VL];
    if (is_f16 && n == TFM__VL) return TFM__V_F16(from);
    if (is_f16) {
        memset(some, 0, sizeof some);
        memcpy(some, from, (size_t)n * sizeof *some);
        return TFM__V_F16(some);
    }
#else
    if (is_f16) {
        float some[TFM__VL];
        int i;
        for (i = 0; i < TFM__VL; i++) some[i] = i < n ? tfm__float_from_half(from[i]) : 0.0f;
        return TFM__V_LOAD(some);
    }
#endif
    return TFM__V_LOAD_SOME((const float *)row + l * TFM__VL, n);
}

/* Adds rows, each times its p, to some vectors of columns, which stay in registers over all rows.
   vectors and is_f16 are constants where this is inlined. */
TFM__INLINED void TFM__(weighted_columns)(float *y, const float *p, const void *rows,
                                          int64_t stride, int64_t n, int64_t width, int vectors,
                                          int is_f16) {
    TFM__V a[4];
    const char *row = (const char *)rows;
    int64_t i;
    int l;
    TFM__UNROLL
    for (l = 0; l < vectors; l++) a[l] = TFM__V_LOAD_SOME(y + l * TFM__VL, TFM__(some)(width, l));
    for (i = 0; i < n; i++, row += stride * (is_f16 ? 2 : 4)) {
        const TFM__V weight = TFM__V_SET(p[i]);
        if (p[i] == 0.0f) continue;
        if (width >= vectors * TFM__VL) {
            TFM__UNROLL
            for (l = 0; l < vectors; l++)
                a[l] = TFM__V_FMA(weight, TFM__(load_column)(row, l, TFM__VL, is_f16), a[l]);
        } else {
            TFM__UNROLL
            for (l = 0; l < vectors; l++)
                a[l] = TFM__V_FMA(weight, TFM__(load_column)(row, l, TFM__(some)(width, l), is_f16),
                                  a[l]);
        }
    }
    TFM__UNROLL
    for (l = 0; l < vectors; l++) TFM__V_STORE_SOME(y + l * TFM__VL, a[l], TFM__(some)(width, l));
}
TFM__TARGET static void TFM__(weighted_sum)(float *y, const float *p, const void *rows,
                                            int64_t stride, int64_t n, int64_t width, int is_f16) {
    const int wide = 4 * TFM__VL;
    const char *row = (const char *)rows;
    if (!is_f16) {
        for (; width > 2 * TFM__VL; width -= wide, y += wide, row += 4 * wide)
            TFM__(weighted_columns)(y, p, row, stride, n, width, 4, 0);
        if (width > 0) TFM__(weighted_columns)(y, p, row, stride, n, width, 2, 0);
        return;
    }
    for (; width >= wide; width -= wide, y += wide, row += 2 * wide)
        TFM__(weighted_columns)(y, p, row, stride, n, wide, 4, 1);
    for (; width > 0; width -= TFM__VL, y += TFM__VL, row += 2 * TFM__VL)
        TFM__(weighted_columns)(y, p, row, stride, n, tfm__min(TFM__VL, width), 1, 1);
}

#ifndef TFM__MOMENTS
/* Computes mean (RMS: 0) and scale of some rows (a constant where this is inlined). Rows are
   handled side by side, because the additions of one row wait for each other. */
TFM__INLINED void TFM__(moments_of)(const float *x, int64_t stride, int rows, int64_t n,
                                    const tfm_norm_weights *w, float *means, float *scales) {
    enum { MORE = TFM__SUMS / TFM__VL }; /* vectors of the lanes of a sum */
    TFM__V totals[4 * MORE], mean[4];
    float lanes[TFM__SUMS];
    double sum[4], square[4];
    int64_t i;
    int r, v;
    for (r = 0; r < rows; r++) sum[r] = square[r] = 0;
    for (i = w->kind == TFM_NORM_KIND_RMS_NORM ? n : 0; i < n;) {
        int64_t end = tfm__min(n, i + TFM__RUN);
        TFM__UNROLL
        for (v = 0; v < rows * MORE; v++) totals[v] = TFM__V_SET(0.0f);
        for (; i + TFM__SUMS <= end; i += TFM__SUMS) {
            TFM__UNROLL
            for (v = 0; v < rows * MORE; v++)
                totals[v] = totals[v] + TFM__V_LOAD(x + v / MORE * stride + i + v % MORE * TFM__VL);
        }
        for (v = 0; i < end && v < rows * MORE; v++) {
            int64_t some = TFM__(some)(end - i, v % MORE);
            totals[v] = totals[v] +
                        TFM__V_LOAD_SOME(x + v / MORE * stride + i + v % MORE * TFM__VL, some);
        }
        for (r = 0; r < rows; r++) {
            memcpy(lanes, totals + r * MORE, sizeof lanes);
            sum[r] += tfm__sum_of_lanes(lanes);
        }
        i = end;
    }
    for (r = 0; r < rows; r++) means[r] = (float)(sum[r] / (double)n);
    TFM__UNROLL
    for (r = 0; r < rows; r++) mean[r] = TFM__V_SET(means[r]);
    for (i = 0; i < n;) {
        int64_t end = tfm__min(n, i + TFM__RUN), k;
        TFM__UNROLL
        for (v = 0; v < rows * MORE; v++) totals[v] = TFM__V_SET(0.0f);
        for (; i + TFM__SUMS <= end; i += TFM__SUMS) {
            TFM__UNROLL
            for (v = 0; v < rows * MORE; v++) {
                TFM__V d = TFM__V_LOAD(x + v / MORE * stride + i + v % MORE * TFM__VL) -
                           mean[v / MORE];
                totals[v] = TFM__V_FMA(d, d, totals[v]);
            }
        }
        for (r = 0; r < rows; r++) {
            for (k = i; k < end; k++) {
                double d = (double)x[r * stride + k] - sum[r] / (double)n;
                square[r] += d * d;
            }
            memcpy(lanes, totals + r * MORE, sizeof lanes);
            square[r] += tfm__sum_of_lanes(lanes);
        }
        i = end;
    }
    for (r = 0; r < rows; r++) scales[r] = (float)tfm__norm_scale(square[r], n, w);
}
TFM__TARGET static void TFM__(moments)(const float *x, int64_t stride, int rows, int64_t n,
                                       const tfm_norm_weights *w, float *means, float *scales) {
    if (rows == 4) TFM__(moments_of)(x, stride, 4, n, w, means, scales);
    else TFM__(moments_of)(x, stride, 1, n, w, means, scales);
}
#define TFM__MOMENTS TFM__(moments)
#endif

TFM__TARGET static void TFM__(norm)(float *y, int64_t y_stride, const float *x, int64_t x_stride,
                                    int64_t rows, int64_t n, const tfm_norm_weights *w) {
    const float *weight = (const float *)w->weight.data, *bias = (const float *)w->bias.data;
    float means[4], scales[4];
    int r, some;
    for (; rows > 0; rows -= some) {
        some = rows >= 4 ? 4 : 1;
        TFM__MOMENTS(x, x_stride, some, n, w, means, scales);
        for (r = 0; r < some; r++, x += x_stride, y += y_stride) {
            const TFM__V mean = TFM__V_SET(means[r]), scale = TFM__V_SET(scales[r]);
            int64_t i;
            for (i = 0; i < n; i += TFM__VL) {
                int64_t k = tfm__min(TFM__VL, n - i);
                TFM__V v = (TFM__V_LOAD_SOME(x + i, k) - mean) * scale;
                if (weight) v = v * TFM__V_LOAD_SOME(weight + i, k);
                if (bias) v = v + TFM__V_LOAD_SOME(bias + i, k);
                TFM__V_STORE_SOME(y + i, v, k);
            }
        }
    }
}

/* x / (1 + exp(-z)) */
TFM__INLINED TFM__V TFM__(gate)(TFM__V x, TFM__V z) {
    return x / (TFM__V_SET(1.0f) + TFM__(exp)(TFM__V_SET(0.0f) - z));
}
TFM__INLINED TFM__V TFM__(active)(TFM__V x, tfm_activation activation) {
    float lanes[TFM__VL];
    switch ((int)activation) {
    case TFM__SIGMOID: return TFM__(gate)(TFM__V_SET(1.0f), x);
    case TFM_ACTIVATION_RELU: return TFM__V_MAX(TFM__V_SET(0.0f), x);
    case TFM_ACTIVATION_GELU:
        return x * TFM__V_SET(0.5f) * (TFM__V_SET(1.0f) + TFM__(erf)(x * TFM__V_SET(0.70710678f)));
    case TFM_ACTIVATION_GELU_TANH: /* 1 + tanh(u) = 2 / (1 + exp(-2u)) */
        return TFM__(gate)(x, TFM__V_SET(1.59576912f) *
                                  TFM__V_FMA(TFM__V_SET(0.044715f), x * x * x, x));
    case TFM_ACTIVATION_SWISH: return TFM__(gate)(x, x);
    case TFM_ACTIVATION_GELU_SIGMOID: return TFM__(gate)(x, x * TFM__V_SET(1.702f));
    default: /* the formula, lane by lane */
        TFM__V_STORE(lanes, x);
        tfm__plain_activate(lanes, TFM__VL, activation);
        return TFM__V_LOAD(lanes);
    }
}
TFM__TARGET static void TFM__(activate)(float *x, int64_t n, tfm_activation activation) {
    int64_t i;
    for (i = 0; i + TFM__VL <= n; i += TFM__VL)
        TFM__V_STORE(x + i, TFM__(active)(TFM__V_LOAD(x + i), activation));
    if (i < n)
        TFM__V_STORE_SOME(x + i, TFM__(active)(TFM__V_LOAD_SOME(x + i, n - i), activation), n - i);
}

/* ---- dot products of rows ----
   DOTS: sums at a time, each in PER_PANEL vectors of lanes; V_STORE_SUMS adds these up by halves
   and stores them. */

#ifndef TFM__DOTS
#define TFM__DOTS 4
#endif
#ifndef TFM__V_STORE_SUMS
#define TFM__V_STORE_SUMS(p, a) TFM__V_STORE(p, TFM__(sum_lanes)(a))
/* Adds the lanes of four vectors by halves, until one number is left of each. */
TFM__INLINED TFM__V TFM__(sum_four)(const TFM__V *s) {
    TFM__V a = TFM__FOUR_LANES(s[0], s[1], 0, 1, 4, 5) + TFM__FOUR_LANES(s[0], s[1], 2, 3, 6, 7);
    TFM__V b = TFM__FOUR_LANES(s[2], s[3], 0, 1, 4, 5) + TFM__FOUR_LANES(s[2], s[3], 2, 3, 6, 7);
    return TFM__FOUR_LANES(a, b, 0, 2, 4, 6) + TFM__FOUR_LANES(a, b, 1, 3, 5, 7);
}
/* Does the same for the sixteen lanes of each sum j, which are in the vectors a[..][j]. */
TFM__INLINED TFM__V TFM__(sum_lanes)(TFM__V a[4][4]) {
    TFM__V s[4];
    int j;
    TFM__UNROLL
    for (j = 0; j < 4; j++) s[j] = (a[0][j] + a[2][j]) + (a[1][j] + a[3][j]);
    return TFM__(sum_four)(s);
}
#endif

/* Adds n columns, at most 16, from k on of nx rows of x by nw rows of w to their sums. */
TFM__INLINED void TFM__(dot_step)(TFM__V a[][TFM__DOTS], const float *const *x, int nx,
                                  const void *const *w, int nw, int64_t k, int64_t n, int is_f16) {
    int i;
    TFM__UNROLL
    for (i = 0; i < TFM__PER_PANEL * nx * nw; i++) {
        const int v = i / (nx * nw), s = i % (nx * nw);
        const char *row = (const char *)w[s % nw] + k * (is_f16 ? 2 : 4);
        if (v * TFM__VL < n)
            a[v][s] = TFM__V_FMA(TFM__(load_column)(x[s / nw] + k, v, TFM__(some)(n, v), 0),
                                 TFM__(load_column)(row, v, TFM__(some)(n, v), is_f16), a[v][s]);
    }
}

/* Computes sums[nw i + j] = x[i] . w[j] for nx rows of x by nw rows of w, whose element k is added
   in lane k mod 16. nx, nw (whose product is at most DOTS) and is_f16 are constants where this is
   inlined. Columns after the last whole step are loaded by masks, or copied in front of zeros. */
TFM__INLINED void TFM__(dots_of)(float *sums, const float *const *x, int nx, const void *const *w,
                                 int nw, int64_t n, int is_f16) {
    TFM__V a[TFM__PER_PANEL][TFM__DOTS];
    int64_t k;
    int i;
    TFM__UNROLL
    for (i = 0; i < TFM__PER_PANEL * TFM__DOTS; i++)
        a[i / TFM__DOTS][i % TFM__DOTS] = TFM__V_SET(0.0f);
    for (k = 0; k + TFM__LANES <= n; k += TFM__LANES)
        TFM__(dot_step)(a, x, nx, w, nw, k, TFM__LANES, is_f16);
    if (k < n && TFM__VL > 4 && !is_f16) TFM__(dot_step)(a, x, nx, w, nw, k, n - k, 0);
    else if (k < n) {
        const int size = is_f16 ? 2 : 4;
        float rest[4 + TFM__DOTS][TFM__LANES];
        const float *xs[4];
        const void *ws[TFM__DOTS];
        memset(rest, 0, sizeof rest);
        for (i = 0; i < nx; i++)
            xs[i] = (float *)memcpy(rest[i], x[i] + k, (size_t)(n - k) * sizeof(float));
        for (i = 0; i < nw; i++)
            ws[i] = memcpy(rest[4 + i], (const char *)w[i] + k * size, (size_t)((n - k) * size));
        TFM__(dot_step)(a, xs, nx, ws, nw, 0, TFM__LANES, is_f16);
    }
    TFM__V_STORE_SUMS(sums, a);
}

/* Computes the dot products of x with n rows. The last row stands in for rows past the end. */
TFM__INLINED void TFM__(row_dots)(float *sums, const float *x, const void *rows, int64_t stride,
                                  int64_t n, int64_t width, int is_f16) {
    const char *row = (const char *)rows;
    const int64_t bytes = stride * (is_f16 ? 2 : 4);
    int64_t step;
    int j;
    for (; n > 0; n -= step, sums += step, row += step * bytes) {
        const void *w[TFM__DOTS];
        float all[TFM__DOTS];
        for (j = 0; j < TFM__DOTS; j++) w[j] = row + tfm__min(j, n - 1) * bytes;
        if (n > 4 || TFM__DOTS == 4) TFM__(dots_of)(all, &x, 1, w, TFM__DOTS, width, is_f16);
        else TFM__(dots_of)(all, &x, 1, w, 4, width, is_f16);
        step = tfm__min(TFM__DOTS, n);
        memcpy(sums, all, (size_t)step * sizeof *sums);
    }
}
TFM__TARGET static void TFM__(dots)(float *sums, const float *x, const void *rows, int64_t stride,
                                    int64_t n, int64_t width, int is_f16) {
    if (!is_f16) TFM__(row_dots)(sums, x, rows, stride, n, width, 0);
    else TFM__(row_dots)(sums, x, rows, stride, n, width, 1);
}
TFM__TARGET static void TFM__(dots_4x4)(const float *const *x, const float *const *w, int64_t n,
                                        float *sums) {
    enum { SIDE = TFM__DOTS == 16 ? 4 : 2 };
    int i, j, k;
    for (i = 0; i < 4; i += SIDE)
        for (j = 0; j < 4; j += SIDE) {
            float all[TFM__DOTS];
            TFM__(dots_of)(all, x + i, SIDE, (const void *const *)(w + j), SIDE, n, 0);
            for (k = 0; k < SIDE; k++)
                memcpy(sums + 4 * (i + k) + j, all + SIDE * k, SIDE * sizeof *sums);
        }
}

#ifdef TFM__V_STORE_F16
TFM__TARGET static void TFM__(narrow_f16)(uint16_t *to, const float *x, int64_t n) {
    const TFM__V least = TFM__V_SET(-65504.0f), most = TFM__V_SET(65504.0f);
    uint16_t rest[TFM__VL];
    int64_t i;
    for (i = 0; i < n; i += TFM__VL) { /* NaN stays NaN */
        int64_t some = tfm__min(TFM__VL, n - i);
        TFM__V v = TFM__V_MAX(least, TFM__V_MIN(most, TFM__V_LOAD_SOME(x + i, some)));
        TFM__V_STORE_F16(some == TFM__VL ? to + i : rest, v);
        if (some < TFM__VL) memcpy(to + i, rest, (size_t)some * sizeof *rest);
    }
}
#endif

#endif /* TFM__V_ROUND */

#undef TFM__ISA
#undef TFM__TARGET
#undef TFM__TALL_TILE
#undef TFM__FLOAT_TILES
#undef TFM__INT8_TILES

#undef TFM__INT8_TARGET
#undef TFM__DOTS
#undef TFM__I_DOT
#undef TFM__I_MMLA_INT8
#undef TFM__I_MMLA_BF16
#undef TFM__I_FLOATS
#ifndef TFM__SAME_VECTORS
#undef TFM__V
#undef TFM__VL
#undef TFM__V_SET
#undef TFM__V_LOAD
#undef TFM__V_LOAD_SOME
#undef TFM__V_STORE
#undef TFM__V_STORE_SOME
#undef TFM__V_F16
#undef TFM__V_DOT_BF16
#undef TFM__V_STORE_F16
#undef TFM__V_STORE_SUMS
#undef TFM__V_FMA
#undef TFM__V_MIN
#undef TFM__V_MAX
#undef TFM__V_IF_LESS
#undef TFM__V_ROUND
#undef TFM__V_LDEXP
#undef TFM__V_MOST
#undef TFM__MOMENTS
#undef TFM__I
#undef TFM__I_LOAD
#undef TFM__I_X
#undef TFM__INT8_SPLIT
#endif
#undef TFM__SAME_VECTORS
#endif /* TFM__ISA */

/* >>licence ---------------------------------------------------------------------------------------

   This software is available under two licences; choose the one that you prefer.

   ALTERNATIVE A - MIT License. Copyright (c) 2026 the authors of transformer.h. Permission is
   hereby granted, free of charge, to any person obtaining a copy of this software and associated
   documentation files (the "Software"), to deal in the Software without restriction, including
   without limitation the rights to use, copy, modify, merge, publish, distribute, sublicense,
   and/or sell copies of the Software, and to permit persons to whom the Software is furnished to do
   so, subject to the following conditions: The above copyright notice and this permission notice
   shall be included in all copies or substantial portions of the Software. THE SOFTWARE IS PROVIDED
   "AS IS", WITHOUT WARRANTY OF ANY KIND, EXPRESS OR IMPLIED, INCLUDING BUT NOT LIMITED TO THE
   WARRANTIES OF MERCHANTABILITY, FITNESS FOR A PARTICULAR PURPOSE AND NONINFRINGEMENT. IN NO EVENT
   SHALL THE AUTHORS OR COPYRIGHT HOLDERS BE LIABLE FOR ANY CLAIM, DAMAGES OR OTHER LIABILITY,
   WHETHER IN AN ACTION OF CONTRACT, TORT OR OTHERWISE, ARISING FROM, OUT OF OR IN CONNECTION WITH
   THE SOFTWARE OR THE USE OR OTHER DEALINGS IN THE SOFTWARE.

   ALTERNATIVE B - Public Domain (www.unlicense.org) This is free and unencumbered software released
   into the public domain. Anyone is free to copy, modify, publish, use, compile, sell, or
   distribute this software, either in source code form or as a compiled binary, for any purpose,
   commercial or non-commercial, and by any means. In jurisdictions that recognize copyright laws,
   the author or authors of this software dedicate any and all copyright interest in the software to
   the public domain. We make this dedication for the benefit of the public at large and to the
   detriment of our heirs and successors. We intend this dedication to be an overt act of
   relinquishment in perpetuity of all present and future rights to this software under copyright
   law. THE SOFTWARE IS PROVIDED "AS IS", WITHOUT WARRANTY OF ANY KIND, EXPRESS OR IMPLIED,
   INCLUDING BUT NOT LIMITED TO THE WARRANTIES OF MERCHANTABILITY, FITNESS FOR A PARTICULAR PURPOSE
   AND NONINFRINGEMENT. IN NO EVENT SHALL THE AUTHORS BE LIABLE FOR ANY CLAIM, DAMAGES OR OTHER
   LIABILITY, WHETHER IN AN ACTION OF CONTRACT, TORT OR OTHERWISE, ARISING FROM, OUT OF OR IN
   CONNECTION WITH THE SOFTWARE OR THE USE OR OTHER DEALINGS IN THE SOFTWARE.
------------------------------------------------------------------------------------------------- */
