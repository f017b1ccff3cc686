//! A model that Infuse compiled. Its code is a part of the program.
//!
//! ```no_run
//! let model = @NAME@::Model::open("weights.bin")?;
//! let mut session = model.session(0)?;
//! # Ok::<(), @NAME@::Error>(())
//! ```
#![warn(missing_docs)]

mod tensor;

use std::ffi::{c_char, c_int, c_void, CStr, CString};
use std::fmt;
use std::path::Path;
use std::sync::Arc;

pub use tensor::{BFloat16, Element, Float16, Tensor, View};

const TEXT: usize = 512;

extern "C" {
    fn @P@_binding_load(path: *const c_char, text: *mut c_char) -> *mut c_void;
    fn @P@_binding_copied(data: *const c_void, bytes: i64, text: *mut c_char) -> *mut c_void;
    fn @P@_binding_unload(loaded: *mut c_void);
    fn @P@_binding_open(
        loaded: *const c_void,
        threads: c_int,
        id: i64,
        context: *mut *mut c_void,
        text: *mut c_char,
    ) -> c_int;
    fn @P@_binding_cancel(context: *mut c_void, cancel: c_int);
    fn @P@_binding_close(context: *mut c_void);
    fn @P@_binding_sizes(frame: *mut i64, text: *mut c_char) -> c_int;
    fn @P@_binding_shapes(frame: *mut i64, text: *mut c_char) -> c_int;
    fn @P@_binding_run(context: *mut c_void, frame: *const i64) -> c_int;
    fn @P@_binding_error(context: *mut c_void) -> *const c_char;
    fn @P@_binding_rank(context: *mut c_void, number: c_int) -> i64;
    fn @P@_binding_result(context: *mut c_void, number: c_int, sizes: *mut i64) -> *const c_void;
}

/// Why something failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Code {
    /// Inputs or weights do not fit the model.
    BadInput,
    /// There is no memory.
    OutOfMemory,
    /// Elements of inputs are not what the model takes.
    BadData,
    /// The run was cancelled.
    Cancelled,
    /// A context cannot be opened so.
    BadOptions,
    /// The system does not let the process use tile registers.
    Refused,
    /// Another number of the C interface.
    Other(i32),
}

/// Why something failed, in words.
#[derive(Clone, Debug)]
pub struct Error {
    /// Which kind.
    pub code: Code,
    /// What is wrong, and where.
    pub text: String,
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl std::error::Error for Error {}

/// What the model takes. `None` stands for the default of an input.
#[derive(Clone, Debug)]
pub struct Inputs<'a> {
@INPUTS@}

/// What the model gives.
#[derive(Clone, Debug, Default)]
pub struct Outputs {
@OUTPUTS@}

#[derive(Debug)]
struct Loaded(*mut c_void);

// Nothing changes weights that are loaded.
unsafe impl Send for Loaded {}
unsafe impl Sync for Loaded {}

impl Drop for Loaded {
    fn drop(&mut self) {
        unsafe { @P@_binding_unload(self.0) }
    }
}

/// The weights of the model, which any number of sessions share.
#[derive(Clone, Debug)]
pub struct Model(Arc<Loaded>);

impl Model {
    /// Reads the weights from a file. It needs none where the model has no weights, or where they are a part of the library.
    pub fn open(weights: impl AsRef<Path>) -> Result<Model, Error> {
        let path = weights.as_ref().as_os_str().as_encoded_bytes();
        let path = CString::new(path).map_err(|_| failure(Code::BadInput, "a path has no zeros"))?;
        let mut text = [0; TEXT];
        let loaded = unsafe { @P@_binding_load(path.as_ptr(), text.as_mut_ptr()) };
        Model::of(loaded, &text)
    }

    /// Takes the content of such a file, which is copied.
    pub fn from_bytes(weights: &[u8]) -> Result<Model, Error> {
        let mut text = [0; TEXT];
        let data = weights.as_ptr() as *const c_void;
        let bytes = weights.len() as i64;
        let loaded = unsafe { @P@_binding_copied(data, bytes, text.as_mut_ptr()) };
        Model::of(loaded, &text)
    }

    fn of(loaded: *mut c_void, text: &[c_char]) -> Result<Model, Error> {
        if loaded.is_null() {
            return Err(failure(Code::BadInput, &text_of(text.as_ptr())));
        }
        Ok(Model(Arc::new(Loaded(loaded))))
    }

    /// A context with this many threads; 0: one a processor.
    pub fn session(&self, threads: usize) -> Result<Session, Error> {
        let mut text = [0; TEXT];
        let threads = c_int::try_from(threads).unwrap_or(c_int::MAX);
        let mut pointer = std::ptr::null_mut();
        let (loaded, text_at) = (self.0 .0, text.as_mut_ptr());
        let code = unsafe { @P@_binding_open(loaded, threads, @ID@, &mut pointer, text_at) };
        if code != 0 {
            return Err(failure(code_of(code), &text_of(text.as_ptr())));
        }
        let context = Arc::new(Context { pointer, _model: self.clone() });
        Ok(Session { context, frame: vec![0; @WORDS@ + 1].into() })
    }
}

#[derive(Debug)]
struct Context {
    pointer: *mut c_void,
    _model: Model,
}

// One thread at a time runs, as `Session::run` needs the session to itself; any thread may cancel.
unsafe impl Send for Context {}
unsafe impl Sync for Context {}

impl Drop for Context {
    fn drop(&mut self) {
        unsafe { @P@_binding_close(self.pointer) }
    }
}

/// Ends runs of a session, by any thread.
#[derive(Clone, Debug)]
pub struct Canceller(Arc<Context>);

impl Canceller {
    /// Ends the run that is under way, and later ones, with `Code::Cancelled`, until `resume`.
    pub fn cancel(&self) {
        unsafe { @P@_binding_cancel(self.0.pointer, 1) }
    }

    /// Lets the session run again.
    pub fn resume(&self) {
        unsafe { @P@_binding_cancel(self.0.pointer, 0) }
    }
}

/// A context of a model. It runs one call at a time; threads have one each.
#[derive(Debug)]
pub struct Session {
    context: Arc<Context>,
    frame: Box<[i64]>,
}

impl Session {
    /// What other threads end runs of this session by.
    pub fn canceller(&self) -> Canceller {
        Canceller(self.context.clone())
    }

    /// The outputs for these inputs. The error says which input does not fit, or why the run failed.
    pub fn run(&mut self, inputs: &Inputs) -> Result<Outputs, Error> {
        let mut outputs = Outputs::default();
        self.run_into(inputs, &mut outputs)?;
        Ok(outputs)
    }

    /// The same in the memory of earlier outputs, where it suffices.
    #[allow(unused_variables)]
    pub fn run_into(&mut self, inputs: &Inputs, outputs: &mut Outputs) -> Result<(), Error> {
        let (frame, context) = (&mut self.frame, self.context.pointer);
        let mut text = [0; TEXT];
@DESCRIBED@
        if unsafe { @P@_binding_sizes(frame.as_mut_ptr(), text.as_mut_ptr()) } != 0 {
            return Err(failure(Code::BadInput, &text_of(text.as_ptr())));
        }
@RESULTS@
        let code = unsafe { @P@_binding_run(context, frame.as_ptr()) };
        if code != 0 {
            return Err(failure(code_of(code), &text_of(unsafe { @P@_binding_error(context) })));
        }
@FILLED@
@LATE@
        Ok(())
    }
}

/// The shapes of all inputs for values of the symbols (@SYMBOL_NAMES@).
pub fn shapes(symbols: &[i64; @SYMBOLS@]) -> Result<Vec<Vec<usize>>, Error> {
    let mut frame = vec![0i64; @WORDS@ + 1];
    frame[@SYMBOLS_AT@..@SYMBOLS_AT@ + @SYMBOLS@].copy_from_slice(symbols);
    let mut text = [0; TEXT];
    if unsafe { @P@_binding_shapes(frame.as_mut_ptr(), text.as_mut_ptr()) } != 0 {
        return Err(failure(Code::BadInput, &text_of(text.as_ptr())));
    }
    #[allow(unused)]
    let sizes_of = |sizes: &[i64]| sizes.iter().map(|&size| size as usize).collect();
    Ok(vec![
@SHAPES@
    ])
}

fn code_of(number: c_int) -> Code {
    match number {
        -1 => Code::BadInput,
        1 => Code::OutOfMemory,
        2 => Code::BadData,
        3 => Code::Cancelled,
        4 => Code::BadOptions,
        5 => Code::Refused,
        other => Code::Other(other),
    }
}

fn failure(code: Code, text: &str) -> Error {
    Error { code, text: text.to_string() }
}

fn text_of(text: *const c_char) -> String {
    unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned()
}

#[allow(unused)]
fn describe<T: Element>(frame: &mut [i64], at: usize, place: usize, rank: usize, view: Option<&View<T>>) {
    frame[at] = -1;
    frame[place] = 0;
    let Some(view) = view else { return };
    frame[at] = view.data().len() as i64;
    frame[place] = view.data().as_ptr() as isize as i64;
    frame[at + 1] = view.shape().map_or(-1, |shape| shape.len() as i64);
    for (axis, size) in view.shape().unwrap_or(&[]).iter().take(rank).enumerate() {
        frame[at + 2 + axis] = i64::try_from(*size).unwrap_or(i64::MAX);
    }
}

#[allow(unused)]
unsafe fn take<T: Element>(context: *mut c_void, number: c_int, tensor: &mut Tensor<T>) {
    let rank = @P@_binding_rank(context, number) as usize;
    let mut sizes = vec![0i64; rank + 1];
    let data = @P@_binding_result(context, number, sizes.as_mut_ptr());
    let memory = tensor.reserve(&sizes[..rank]);
    let elements: usize = tensor.shape().iter().product();
    if elements > 0 {
        std::ptr::copy_nonoverlapping(data as *const T, memory, elements);
    }
    tensor.filled();
}
