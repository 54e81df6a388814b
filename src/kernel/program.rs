//! Programs and their kernels, as constants.

use super::bounds::Bounds;
use super::signature::{self, Signature};
use super::{MOST_PARAMETERS, Module, Parameters, SignatureError};
use crate::sealed::Sealed;
use std::fmt;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::marker::PhantomData;
use std::sync::atomic::{AtomicU64, Ordering};

const MOST_TEXTS: usize = 12;
const MOST_DEFINES: usize = 32;

/// The source text of one or more kernels, in the dialect defined by `kernels/dialect.h`. That header always precedes
/// the text.
///
/// ```
/// use thalweg::kernel::Program;
/// const TEXT: &str = "KERNEL(256, 1, 1) axpy(double a, IN(double, x, n), INOUT(double, y, n), int n)
///                     {
///                         REGION(x); REGION(y);
///                         int i = GLOBAL_ID(0);
///                         if (i < n) y[i] += a * x[i];
///                     }";
/// // SAFETY: only the first n elements of x and y are touched.
/// const AXPY: Program = unsafe { Program::new("axpy.cl", TEXT) };
/// assert_eq!(AXPY.name(), "axpy.cl");
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Program {
    /// Names and texts of the headers, followed by the program's own.
    texts: [(&'static str, &'static str); MOST_TEXTS],
    text_count: usize,
    defines: [(&'static str, i64); MOST_DEFINES],
    define_count: usize,
}

impl Program {
    /// Creates a program from source text. Compiler messages refer to the text as `name`.
    ///
    /// The text is code in another language, and nothing can keep such code from writing anywhere in memory. The
    /// heads of its kernels are checked when a [`Kernel`] is created, and every launch checks that the elements
    /// declared in the head belong to the task's regions. You must vouch for the rest, once per text; in return,
    /// launches are safe.
    ///
    /// # Safety
    /// Each kernel, combined with the headers and macros that are added to the program, must touch no memory except
    /// its own and, in each buffer, the elements declared in its head. This must hold for any number of threads in up
    /// to three dimensions, below 2³¹ each, and for all values of the other parameters that a launch can pass. A
    /// kernel must not write to an `IN` buffer.
    #[allow(unsafe_code)] // `unsafe` marks a promise of the caller; nothing unsafe is done here
    pub const unsafe fn new(name: &'static str, text: &'static str) -> Self {
        let mut texts = [("", ""); MOST_TEXTS];
        texts[0] = (name, text);
        Self { texts, text_count: 1, defines: [("", 0); MOST_DEFINES], define_count: 0 }
    }

    /// Adds a header. Headers precede the program's own text, in the order in which they were added.
    ///
    /// # Panics
    /// Panics if there are more than eleven headers.
    #[must_use]
    #[track_caller]
    pub const fn header(mut self, name: &'static str, text: &'static str) -> Self {
        assert!(self.text_count < MOST_TEXTS, "a program has at most eleven headers");
        let own = self.texts[self.text_count - 1];
        self.texts[self.text_count - 1] = (name, text);
        self.texts[self.text_count] = own;
        self.text_count += 1;
        self
    }

    /// Defines a macro with an integer value.
    ///
    /// # Panics
    /// Panics if there are more than 32 macros.
    #[must_use]
    #[track_caller]
    pub const fn define(mut self, name: &'static str, value: i64) -> Self {
        assert!(self.define_count < MOST_DEFINES, "a program has at most 32 macros");
        self.defines[self.define_count] = (name, value);
        self.define_count += 1;
        self
    }

    /// Returns the name used in messages.
    pub const fn name(&self) -> &'static str {
        self.texts[self.text_count - 1].0
    }

    const fn own_text(&self) -> &'static str {
        self.texts[self.text_count - 1].1
    }

    const fn own_defines(&self) -> &[(&'static str, i64)] {
        self.defines.split_at(self.define_count).0
    }

    /// Returns the complete compiler input: macros, dialect, headers and the program's text, each marked with its
    /// origin.
    pub(crate) fn source(&self) -> String {
        self.source_with("")
    }

    /// Like [`Self::source`], but prepends `prefix` to kernel names, which might otherwise collide with built-in
    /// functions of the language.
    pub(crate) fn source_with(&self, prefix: &str) -> String {
        let mut source = String::new();
        for (name, value) in &self.defines[..self.define_count] {
            source += &format!("#define {name} {value}\n");
        }
        let dialect = ("dialect.h", include_str!("../../kernels/dialect.h"));
        let (headers, own) = self.texts[..self.text_count].split_at(self.text_count - 1);
        for (name, text) in [dialect].iter().chain(headers) {
            source += &format!("#line 1 \"{name}\"\n{text}\n");
        }
        for (name, text) in own {
            let kernels = if prefix.is_empty() { Vec::new() } else { signature::kernels(text) };
            kernels.iter().for_each(|kernel| source += &format!("#define {kernel} {prefix}{kernel}\n"));
            source += &format!("#line 1 \"{name}\"\n{text}\n");
        }
        source
    }
}

impl Sealed for Program {}

impl Compiled for Program {
    fn source(&self) -> Source {
        Source::Program(*self)
    }
}

impl fmt::Debug for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Program").field(&self.name()).finish()
    }
}

/// One kernel of a program; `P` is the tuple of its parameter types: numbers, [`Read`](super::Read) and
/// [`Write`](super::Write).
///
/// The types are compared with the text during constant evaluation, so a mismatch is a compile-time error.
///
/// ```
/// use thalweg::kernel::{Kernel, Program, Read, SignatureError, Write};
/// const TEXT: &str = "KERNEL(64, 1, 1) twice(IN(double, x, n), OUT(double, y, n), int n)
///                     { REGION(x); REGION(y); int i = GLOBAL_ID(0); if (i < n) y[i] = 2 * x[i]; }";
/// // SAFETY: only the first n elements of x and y are touched.
/// const PROGRAM: Program = unsafe { Program::new("twice.cl", TEXT) };
/// static TWICE: Kernel<(Read<f64>, Write<f64>, i32)> = Kernel::new(&PROGRAM, "twice");
/// assert_eq!(TWICE.name(), "twice");
/// // A text that is known only at run time:
/// let refused = Kernel::<(Read<f64>, Read<f64>, i32)>::checked(&PROGRAM, "twice");
/// assert_eq!(refused.unwrap_err(), SignatureError::Type);
/// ```
pub struct Kernel<P> {
    text: KernelText,
    parameters: PhantomData<fn(P)>,
}

/// Something with a text to compile: a [`Program`] or a [`Module`].
///
/// ```
/// use thalweg::kernel::{Compiled, Module};
/// fn names(_: &impl Compiled) {}
/// names(&Module::new("empty"));
/// ```
pub trait Compiled: Sealed {
    #[doc(hidden)]
    fn source(&self) -> Source;
}

/// The program or module that a kernel comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[allow(clippy::large_enum_variant)] // constants cannot be boxed
pub enum Source {
    Program(Program),
    Module(Module),
}

/// A kernel without its Rust parameter types.
#[derive(Debug)]
pub(crate) struct KernelText {
    pub(crate) source: Source,
    pub(crate) name: &'static str,
    pub(crate) group: [u32; 3],
    /// The names of the kernel's parameters.
    pub(crate) names: [&'static str; MOST_PARAMETERS],
    pub(super) bounds: Bounds,
    /// Cached [`Self::source_key`]; 0 until the key is first needed.
    key: AtomicU64,
}

impl KernelText {
    pub(super) const fn new(
        source: Source,
        name: &'static str,
        group: [u32; 3],
        names: [&'static str; MOST_PARAMETERS],
        bounds: Bounds,
    ) -> Self {
        Self { source, name, group, names, bounds, key: AtomicU64::new(0) }
    }

    /// Returns the kernel `name` of `program` with its parameters, for texts that are known only at run time.
    #[cfg(feature = "dynamic")]
    pub(crate) fn of(program: &Program, name: &'static str) -> Result<(Self, Vec<super::Parameter>), SignatureError> {
        let signature = signature::parse(program.own_text(), name, program.own_defines())?;
        let parameters = signature.parameters().to_vec();
        let Signature { group, names, bounds, .. } = signature;
        Ok((Self::new(Source::Program(*program), name, group, names, bounds), parameters))
    }

    /// Returns a key that identifies the kernel's program or module.
    pub(crate) fn source_key(&self) -> u64 {
        let known = self.key.load(Ordering::Relaxed);
        if known != 0 {
            return known;
        }
        let mut hasher = DefaultHasher::new();
        self.source.hash(&mut hasher);
        let key = hasher.finish() | 1;
        self.key.store(key, Ordering::Relaxed);
        key
    }
}

impl<P: Parameters> Kernel<P> {
    /// Returns the kernel `name` of `program`.
    ///
    /// # Panics
    /// Panics if there is no such kernel, if its parameters differ from `P`, if its head does not say how many
    /// elements of a buffer it may touch, or if its body lacks a `REGION`. In a constant or static, the panic is a
    /// compile-time error.
    #[track_caller]
    pub const fn new(program: &Program, name: &'static str) -> Self {
        match Self::checked(program, name) {
            Ok(kernel) => kernel,
            Err(error) => panic!("{}", error.message()),
        }
    }

    /// Like [`new`](Self::new), for texts that are known only at run time.
    ///
    /// # Errors
    /// Returns an error where [`new`](Self::new) panics.
    pub const fn checked(program: &Program, name: &'static str) -> Result<Self, SignatureError> {
        let Signature { group, names, bounds, .. } = match Self::signature(program, name) {
            Ok(signature) => signature,
            Err(error) => return Err(error),
        };
        let text = KernelText::new(Source::Program(*program), name, group, names, bounds);
        Ok(Self { text, parameters: PhantomData })
    }

    const fn signature(program: &Program, name: &str) -> Result<Signature, SignatureError> {
        match signature::parse(program.own_text(), name, program.own_defines()) {
            Err(error) => Err(error),
            Ok(signature) => match signature.check(P::LIST) {
                Ok(()) => Ok(signature),
                Err(error) => Err(error),
            },
        }
    }
}

impl<P> Kernel<P> {
    /// Returns the kernel's name.
    pub const fn name(&self) -> &'static str {
        self.text.name
    }

    /// Returns the number of threads per group, in three dimensions.
    pub const fn group(&self) -> [u32; 3] {
        self.text.group
    }

    pub(crate) fn text(&self) -> &KernelText {
        &self.text
    }
}

impl<P> fmt::Debug for Kernel<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Kernel").field("source", &self.text.source).field("name", &self.text.name).finish()
    }
}

#[cfg(test)]
#[allow(unsafe_code)] // the texts in these tests contain no kernels
mod tests {
    use super::*;

    #[test]
    fn source_marks_where_each_text_begins() {
        let of = |name, text| {
            // SAFETY: the text contains no kernels.
            unsafe { Program::new(name, text) }
        };
        let program = of("b.cl", "int b;").header("a.h", "int a;").define("N", 3);
        let source = program.source();
        let places: Vec<_> = source.lines().filter(|line| line.starts_with("#line") || line.contains("N 3")).collect();
        assert_eq!(places, ["#define N 3", "#line 1 \"dialect.h\"", "#line 1 \"a.h\"", "#line 1 \"b.cl\""]);
        assert!(source.ends_with("int b;\n"));
        assert_ne!(program, of("b.cl", "int b;").header("a.h", "int a;"));
    }
}
