//! Translates text on the CPU, without a network, with the models of transformer.h. The package contains the library.
//!
//! ```no_run
//! use transformer::{Model, Options};
//!
//! # fn main() -> Result<(), transformer::Error> {
//! let model = Model::open("de-en.safetensors")?;
//! let mut translator = model.translator(&Options::new().threads(2))?;
//! assert_eq!(translator.translate("Guten Tag.")?, "Good day.");
//! for result in translator.stream(["Guten Tag.", "Danke."]) {
//!     println!("{}", result?.text);
//! }
//! # Ok(())
//! # }
//! ```
//!
//! A text may have any length. Its labels, quotation marks and brackets, and what is in the target language, stay as
//! they are: the translation is what the program `translate` writes for the text. [`Options::plain`] switches that off.
//!
//! **Threads.** A [`Model`] is [`Send`] and [`Sync`], and cloning it copies a reference: it never changes after loading.
//! A [`Translator`] and a [`Stream`] are `Send`, because the library has no state that belongs to a thread. They are not
//! `Sync`: one thread at a time may use them, which `&mut` makes sure of. Wrong use does not compile:
//!
//! ```compile_fail,E0382
//! # fn wrong(mut translator: transformer::Translator) {
//! drop(translator);
//! translator.translate("Guten Tag."); // it is freed
//! # }
//! ```
//!
//! ```compile_fail,E0499
//! # fn wrong(mut translator: transformer::Translator) {
//! let mut stream = translator.stream(["Guten Tag."]);
//! translator.translate("Danke."); // the stream uses it
//! stream.next();
//! # }
//! ```
#![warn(missing_docs)]
use std::{
    ffi::{CStr, CString},
    fmt, marker,
    os::raw::{c_char, c_double, c_int, c_void},
    path::Path,
    ptr, slice,
    sync::Arc,
};

/// `tfm_error` of transformer.h.
#[repr(C)]
struct RawError {
    status: c_int,
    text: [c_char; 256],
}

/// `binding_result` of binding.h.
#[repr(C)]
struct RawResult {
    text: *const c_char,
    size: i64,
    number: i64,
    sentences: i64,
    cut: i64,
    left: i64,
    status: i64,
}

const NEEDS_TEXT: i32 = 1;
const HAS_RESULT: i32 = 2;
const FAILED: i32 = 3;

extern "C" {
    fn binding_status_name(status: i32) -> *const c_char;
    fn binding_model_open(model: *mut *mut c_void, path: *const c_char, err: *mut RawError) -> c_int;
    fn binding_model_read(model: *mut *mut c_void, data: *const c_void, size: usize, err: *mut RawError) -> c_int;
    fn binding_model_release(model: *mut c_void);
    fn binding_translator_create(translator: *mut *mut c_void, model: *mut c_void, err: *mut RawError) -> c_int;
    fn binding_translator_number(translator: *mut c_void, name: *const c_char, value: c_double, err: *mut RawError) -> c_int;
    fn binding_translator_text(translator: *mut c_void, name: *const c_char, value: *const c_char, err: *mut RawError) -> c_int;
    fn binding_translator_check(translator: *mut c_void, err: *mut RawError) -> c_int;
    fn binding_translator_release(translator: *mut c_void);
    fn binding_run_start(run: *mut *mut c_void, translator: *mut c_void, err: *mut RawError) -> c_int;
    fn binding_run_next(run: *mut c_void, result: *mut RawResult, err: *mut RawError) -> i32;
    fn binding_run_give(run: *mut c_void, text: *const c_char, size: usize, err: *mut RawError) -> c_int;
    fn binding_run_release(run: *mut c_void);
}

/// Why something failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error {
    /// The kind of failure, which a program can compare: `"IO"` if a file cannot be read, `"FORMAT"` if it is no model,
    /// `"UTF8"`, `"TOO_LONG"`, `"ARGUMENT"` for an option, and the other statuses of transformer.h without `TFM_E_`.
    pub status: &'static str,
    /// What is wrong, in words.
    pub message: String,
}

impl Error {
    fn new(status: i32, message: &[u8]) -> Self {
        // Safety: the name is a constant of the library, in ASCII.
        let status = unsafe { CStr::from_ptr(binding_status_name(status)) }.to_str().unwrap_or("UNKNOWN");
        Error { status, message: String::from_utf8_lossy(message).into_owned() }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Error {}

/// Calls a function of the library with room for its error.
fn check(call: impl FnOnce(*mut RawError) -> c_int) -> Result<(), Error> {
    let mut err = RawError { status: 0, text: [0; 256] };
    if call(&mut err) == 0 {
        return Ok(());
    }
    // Safety: the library terminates the text.
    Err(Error::new(err.status, unsafe { CStr::from_ptr(err.text.as_ptr()) }.to_bytes()))
}

fn c_string(text: &str, name: &str) -> Result<CString, Error> {
    CString::new(text).map_err(|_| Error { status: "ARGUMENT", message: format!("{name} has a zero byte") })
}

#[derive(Debug)]
struct ModelHandle(*mut c_void);
// Safety: a loaded model does not change (transformer.h, section 6); binding.c counts its references with a mutex.
unsafe impl Send for ModelHandle {}
unsafe impl Sync for ModelHandle {}

impl Drop for ModelHandle {
    fn drop(&mut self) {
        // Safety: nobody else has this reference.
        unsafe { binding_model_release(self.0) }
    }
}

/// A loaded model. Any number of threads may share it; a clone is another reference to the same model.
#[derive(Clone, Debug)]
pub struct Model(Arc<ModelHandle>);

impl Model {
    /// Loads a model from a file.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, Error> {
        let path = path.as_ref();
        let name = path.to_str().ok_or_else(|| Error { status: "ARGUMENT", message: format!("{path:?} is not UTF-8") })?;
        let name = c_string(name, "the path")?;
        let mut model = ptr::null_mut();
        // Safety: both pointers are valid during the call.
        check(|err| unsafe { binding_model_open(&mut model, name.as_ptr(), err) })?;
        Ok(Model(Arc::new(ModelHandle(model))))
    }

    /// Loads a model from the bytes of a file, which are copied: a file takes less memory.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, Error> {
        let mut model = ptr::null_mut();
        // Safety: the bytes are valid during the call, which copies them.
        check(|err| unsafe { binding_model_read(&mut model, bytes.as_ptr().cast(), bytes.len(), err) })?;
        Ok(Model(Arc::new(ModelHandle(model))))
    }

    /// Makes a translator with this model. It keeps the model.
    pub fn translator(&self, options: &Options) -> Result<Translator, Error> {
        let mut translator = Translator(ptr::null_mut());
        // Safety: the model is valid while self is; the names and texts are valid during the calls.
        check(|err| unsafe { binding_translator_create(&mut translator.0, self.0 .0, err) })?;
        for (name, value) in &options.numbers {
            let name = c_string(name, "the name of an option")?;
            check(|err| unsafe { binding_translator_number(translator.0, name.as_ptr(), *value, err) })?;
        }
        for (name, value) in &options.texts {
            let (value, name) = (c_string(value, name)?, c_string(name, name)?);
            check(|err| unsafe { binding_translator_text(translator.0, name.as_ptr(), value.as_ptr(), err) })?;
        }
        check(|err| unsafe { binding_translator_check(translator.0, err) })?;
        Ok(translator)
    }
}

/// How a translator translates. Without options it decodes as the model file says, in one thread.
#[derive(Clone, Debug, Default)]
pub struct Options {
    numbers: Vec<(String, f64)>,
    texts: Vec<(&'static str, String)>,
}

impl Options {
    /// No option.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets an option by the name that binding.c has for it, for instance `("length_penalty", 0.6)`. An unknown name is
    /// an error of [`Model::translator`].
    pub fn set(mut self, name: &str, value: f64) -> Self {
        self.numbers.push((name.into(), value));
        self
    }

    /// The number of threads that translate, at most 64.
    pub fn threads(self, n: u32) -> Self {
        self.set("threads", n.into())
    }

    /// The number of hypotheses of the beam search; 1 is greedy.
    pub fn beam(self, n: u32) -> Self {
        self.set("beam", n.into())
    }

    /// The most bytes that all threads together may take to translate. The model is not counted.
    pub fn memory(self, bytes: u64) -> Self {
        self.set("memory", bytes as f64)
    }

    /// Gives each text to the model as it is, without looking for labels, quotation marks and other languages.
    pub fn plain(self) -> Self {
        self.set("plain", 1.0)
    }

    /// The languages of a model that has several, as its file names them.
    pub fn languages(mut self, source: &str, target: &str) -> Self {
        self.texts.push(("source_language", source.into()));
        self.texts.push(("target_language", target.into()));
        self
    }

    /// Whether the model reads a text sentence by sentence (true) or as a whole. The model file says what is right.
    pub fn sentences(mut self, split: bool) -> Self {
        self.texts.push(("sentences", if split { "split" } else { "whole" }.into()));
        self
    }
}

/// The translation of a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Translation {
    /// The translation.
    pub text: String,
    /// The number of sentences that the model translated.
    pub sentences: u64,
    /// Sentences of which only a part is translated, because they or their translations are too long.
    pub cut: u64,
    /// Sentences that stay as they are: the model cannot read them, or they are in the target language.
    pub left: u64,
}

/// Translates texts with one model. Its threads and memory stay for the next call.
#[derive(Debug)]
pub struct Translator(*mut c_void);
// Safety: no state belongs to a thread; every use needs &mut, and so has the translator for itself.
unsafe impl Send for Translator {}

impl Translator {
    /// Translates one text.
    pub fn translate(&mut self, text: &str) -> Result<String, Error> {
        self.stream([text]).next().expect("a text has a result").map(|translation| translation.text)
    }

    /// Translates texts together, which is faster than one after the other. A text that fails does not stop the others.
    pub fn translate_all<I>(&mut self, texts: I) -> Vec<Result<String, Error>>
    where
        I: IntoIterator,
        I::Item: AsRef<[u8]>,
    {
        self.stream(texts).map(|result| result.map(|translation| translation.text)).collect()
    }

    /// Translates texts as an iterator gives them: `&str`, `String`, or bytes. The results come in the order of the
    /// texts, as soon as they are known. A text that fails has an error, also one that is not UTF-8, and the others
    /// go on. To end early, drop the stream. The translator reads ahead by some batches (option `max_batch`), so texts
    /// without end take bounded memory.
    pub fn stream<I>(&mut self, texts: I) -> Stream<'_, I::IntoIter>
    where
        I: IntoIterator,
        I::Item: AsRef<[u8]>,
    {
        let mut run = ptr::null_mut();
        // Safety: self.0 is valid. If the last stream was leaked (mem::forget), the library refuses a second run.
        let failure = check(|err| unsafe { binding_run_start(&mut run, self.0, err) }).err();
        Stream { run, failure, texts: texts.into_iter(), translator: marker::PhantomData }
    }
}

impl Drop for Translator {
    fn drop(&mut self) {
        // Safety: nobody else has this reference.
        unsafe { binding_translator_release(self.0) }
    }
}

/// Translations as they come: an iterator that [`Translator::stream`] returns.
pub struct Stream<'a, I> {
    run: *mut c_void, // null: it has ended, or could not start
    failure: Option<Error>,
    texts: I,
    translator: marker::PhantomData<&'a mut Translator>,
}
// Safety: as for Translator. A run waits for whichever thread calls it next.
unsafe impl<I: Send> Send for Stream<'_, I> {}

impl<I> Stream<'_, I> {
    fn end(&mut self) {
        // Safety: the run is valid or null, and is null afterwards.
        unsafe { binding_run_release(self.run) }
        self.run = ptr::null_mut();
    }
}

impl<I> Iterator for Stream<'_, I>
where
    I: Iterator,
    I::Item: AsRef<[u8]>,
{
    type Item = Result<Translation, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        while !self.run.is_null() {
            let mut result = RawResult { text: ptr::null(), size: 0, number: 0, sentences: 0, cut: 0, left: 0, status: 0 };
            let mut event = 0;
            // Safety: the run is valid, and so are the two structs during the call.
            let failed = check(|err| unsafe {
                event = binding_run_next(self.run, &mut result, err);
                c_int::from(event == FAILED)
            });
            if event == HAS_RESULT {
                // Safety: the library says where the text is, and keeps it until the next call for this run.
                let text = unsafe { slice::from_raw_parts(result.text.cast::<u8>(), result.size as usize) };
                return Some(if result.status == 0 {
                    let (sentences, cut, left) = (result.sentences as u64, result.cut as u64, result.left as u64);
                    Ok(Translation { text: String::from_utf8_lossy(text).into_owned(), sentences, cut, left })
                } else {
                    Err(Error::new(result.status as i32, text))
                });
            }
            let given = if event == NEEDS_TEXT {
                let text = self.texts.next();
                let bytes = text.as_ref().map(AsRef::as_ref);
                let data = bytes.map_or(ptr::null(), <[u8]>::as_ptr);
                // Safety: the bytes are valid during the call, which copies them. Null: there are no more texts.
                check(|err| unsafe { binding_run_give(self.run, data.cast(), bytes.map_or(0, <[u8]>::len), err) })
            } else {
                self.end();
                failed
            };
            if let Err(error) = given {
                self.end();
                self.failure = Some(error);
            }
        }
        self.failure.take().map(Err)
    }
}

impl<I> Drop for Stream<'_, I> {
    fn drop(&mut self) {
        self.end();
    }
}
