//! Parser for kernel heads: the thread group, the parameters, and the number of elements of each buffer that the
//! kernel may touch. The parser also checks that the kernel's body contains a `REGION` for each buffer, which makes
//! the buffer start at the task's region.
//!
//! Everything is `const`, so that a [`super::Kernel`] can be checked against its text while the program is compiled.
//! The parser understands only the grammar of heads: `KERNEL(x, y, z) name(parameter, ..)`, with comments anywhere,
//! and parameters of the forms `IN(type, name, bounds)`, `OUT(type, name, bounds)`, `INOUT(type, name, bounds)` or,
//! for a scalar, `type name`. `bounds.rs` parses the bounds. In a kernel's body, the parser looks only for
//! `REGION(name)`.

use super::bounds::{Bounds, Scope};
use super::cursor::Cursor;

/// The maximum number of parameters of a kernel.
pub(crate) const MOST_PARAMETERS: usize = 32;

/// An element type that is the same on the host and in kernels.
///
/// ```
/// use thalweg::kernel::{ElementType, Scalar};
/// assert_eq!(u64::TYPE, ElementType::U64); // `UINT64` in a kernel's text
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ElementType {
    /// `double`
    F64,
    /// `float`
    F32,
    /// `int`
    I32,
    /// `unsigned`
    U32,
    /// `INT64`
    I64,
    /// `UINT64`
    U64,
}

/// One parameter of a kernel.
///
/// ```
/// use thalweg::kernel::{ElementType, Parameter};
/// assert_ne!(Parameter::Read(ElementType::F64), Parameter::Write(ElementType::F64)); // `IN` and `OUT`
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Parameter {
    /// A value.
    Scalar(ElementType),
    /// Elements in device memory that the kernel reads.
    Read(ElementType),
    /// Elements in device memory that the kernel reads and writes.
    Write(ElementType),
}

impl Parameter {
    pub(super) const fn same(self, other: Self) -> bool {
        match (self, other) {
            (Self::Scalar(a), Self::Scalar(b)) | (Self::Read(a), Self::Read(b)) | (Self::Write(a), Self::Write(b)) => {
                a as u8 == b as u8
            }
            (Self::Scalar(_) | Self::Read(_) | Self::Write(_), _) => false,
        }
    }
}

/// An error in a kernel's head, or in the Rust types given for its parameters.
///
/// ```
/// use thalweg::kernel::SignatureError;
/// assert_eq!(SignatureError::TooMany.to_string(), "the kernel has more than 32 parameters");
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SignatureError {
    /// The text has no kernel of this name.
    #[error("the text has no `KERNEL(x, y, z) name(..)` of this name")]
    Missing,
    /// The head could not be parsed.
    #[error("the kernel's head is not `KERNEL(x, y, z) name(parameters)` with numbers above 0 for its group")]
    Head,
    /// A parameter could not be parsed.
    #[error(
        "a parameter is neither `IN(type, name, bounds)`, `OUT(type, name, bounds)`, `INOUT(type, name, bounds)` nor \
         `type name`, or of a type that hosts do not have"
    )]
    Parameter,
    /// A buffer's bounds are missing or could not be parsed.
    #[error(
        "the head does not say, or not in terms of its integers, how many elements of `{parameter}` the kernel may \
         touch; try `IN(type, {parameter}, n)`, or `[rows : stride][columns]` for a box"
    )]
    Bounds {
        /// The name of the buffer parameter.
        parameter: &'static str,
    },
    /// The kernel's body has no `REGION` for a buffer, so it would use the buffer from the start of the buffer
    /// instead of the start of the region.
    #[error("the kernel's body does not name its buffer `{parameter}`; try `REGION({parameter});` as its first line")]
    Region {
        /// The name of the buffer parameter.
        parameter: &'static str,
    },
    /// The kernel has too many parameters.
    #[error("the kernel has more than 32 parameters")]
    TooMany,
    /// The text and the Rust type have different numbers of parameters.
    #[error("the number of the kernel's parameters differs from its Rust type")]
    Count,
    /// A parameter differs from its Rust type.
    #[error("a parameter of the kernel differs from its Rust type")]
    Type,
}

impl SignatureError {
    pub(super) const fn message(self) -> &'static str {
        match self {
            Self::Missing => "the text has no `KERNEL(x, y, z) name(..)` of this name",
            Self::Head => "the kernel's head is not `KERNEL(x, y, z) name(parameters)` with numbers above 0",
            Self::Parameter => "a parameter is not understood; see `kernels/dialect.h`",
            Self::Bounds { .. } => {
                "the kernel's head does not say how many elements of a buffer it may touch; try `IN(type, name, n)` \
                 with an expression `n` of the kernel's integers; see `kernels/dialect.h`"
            }
            Self::Region { .. } => "the kernel's body has no `REGION(name)` for one of its buffers",
            Self::TooMany => "the kernel has more than 32 parameters",
            Self::Count => "the number of the kernel's parameters differs from its Rust type",
            Self::Type => "a parameter of the kernel differs from its Rust type",
        }
    }
}

/// A parsed kernel head.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Signature {
    pub(crate) group: [u32; 3],
    parameters: [Parameter; MOST_PARAMETERS],
    pub(crate) names: [&'static str; MOST_PARAMETERS],
    pub(crate) bounds: Bounds,
    count: usize,
}

impl Signature {
    /// Checks that the parameters are the expected ones.
    pub(super) const fn check(&self, expected: &[Parameter]) -> Result<(), SignatureError> {
        if self.count != expected.len() {
            return Err(SignatureError::Count);
        }
        let mut i = 0;
        while i < self.count {
            if !self.parameters[i].same(expected[i]) {
                return Err(SignatureError::Type);
            }
            i += 1;
        }
        Ok(())
    }

    /// Returns the parameters.
    pub(super) const fn parameters(&self) -> &[Parameter] {
        self.parameters.split_at(self.count).0
    }

    /// Returns the index of the parameter with this name.
    pub(super) const fn position(&self, name: &str) -> Option<usize> {
        let mut n = 0;
        while n < self.count {
            if equal(self.names[n], name) {
                return Some(n);
            }
            n += 1;
        }
        None
    }
}

/// Replacement for the `?` operator in `const` functions.
macro_rules! attempt {
    ($result:expr) => {
        match $result {
            Ok(value) => value,
            Err(error) => return Err(error),
        }
    };
}

/// Returns the names of all kernels in a text, without duplicates.
pub(super) fn kernels(text: &'static str) -> Vec<&'static str> {
    let (mut cursor, mut names) = (Cursor::new(text), Vec::new());
    while !cursor.is_at_end() {
        match cursor.word() {
            "" => cursor.advance(),
            "KERNEL" if cursor.take(b'(') && cursor.close() => {
                let name = cursor.word();
                if !name.is_empty() && cursor.take(b'(') && !names.contains(&name) {
                    names.push(name);
                }
            }
            _ => {}
        }
    }
    names
}

/// Parses the head of the kernel `name` in `text`, in which the macros in `defines` stand for the given numbers.
pub(super) const fn parse(
    text: &'static str,
    name: &str,
    defines: &[(&'static str, i64)],
) -> Result<Signature, SignatureError> {
    let mut cursor = Cursor::new(text);
    loop {
        let word = cursor.word();
        if word.is_empty() {
            if cursor.is_at_end() {
                return Err(SignatureError::Missing);
            }
            cursor.advance();
            continue;
        }
        if !equal(word, "KERNEL") || !cursor.take(b'(') {
            continue;
        }
        let mut group = [0; 3];
        let mut d = 0;
        while d < 3 {
            group[d] = threads(cursor.word(), defines);
            if !cursor.take(if d < 2 { b',' } else { b')' }) {
                break; // the definition of the macro itself, or a mistake that is reported below
            }
            d += 1;
        }
        if !equal(cursor.word(), name) {
            continue;
        }
        if d < 3 || group[0] == 0 || group[1] == 0 || group[2] == 0 || !cursor.take(b'(') {
            return Err(SignatureError::Head);
        }
        let (places, mut signature) = attempt!(parameters(&mut cursor, group));
        signature.bounds = attempt!(Bounds::parse(&Scope { places: &places, signature: &signature, defines }));
        return match missing_region(cursor, &signature) {
            None => Ok(signature),
            Some(parameter) => Err(SignatureError::Region { parameter }),
        };
    }
}

/// The position in the text where each buffer's bounds begin.
type Places = [Cursor; MOST_PARAMETERS];

/// Parses everything up to the closing bracket except the bounds, which may name later parameters.
const fn parameters(cursor: &mut Cursor, group: [u32; 3]) -> Result<(Places, Signature), SignatureError> {
    let mut places = [*cursor; MOST_PARAMETERS];
    let mut signature = Signature {
        group,
        parameters: [Parameter::Scalar(ElementType::F64); MOST_PARAMETERS],
        names: [""; MOST_PARAMETERS],
        bounds: Bounds::NONE,
        count: 0,
    };
    if cursor.take(b')') {
        return Ok((places, signature));
    }
    loop {
        if signature.count == MOST_PARAMETERS {
            return Err(SignatureError::TooMany);
        }
        let (parameter, name, place) = attempt!(parameter(cursor));
        signature.parameters[signature.count] = parameter;
        signature.names[signature.count] = name;
        places[signature.count] = place;
        signature.count += 1;
        if cursor.take(b')') {
            return Ok((places, signature));
        }
        if !cursor.take(b',') {
            return Err(SignatureError::Parameter);
        }
    }
}

const fn parameter(cursor: &mut Cursor) -> Result<(Parameter, &'static str, Cursor), SignatureError> {
    let mut word = cursor.word();
    let reads = equal(word, "IN");
    if reads || equal(word, "OUT") || equal(word, "INOUT") {
        if !cursor.take(b'(') {
            return Err(SignatureError::Parameter);
        }
        let element = attempt!(element(cursor.word()));
        if !cursor.take(b',') {
            return Err(SignatureError::Parameter);
        }
        let name = cursor.word();
        if name.is_empty() {
            return Err(SignatureError::Parameter);
        }
        if !cursor.take(b',') {
            return Err(SignatureError::Bounds { parameter: name });
        }
        let place = *cursor;
        if !cursor.close() {
            return Err(SignatureError::Bounds { parameter: name });
        }
        let parameter = if reads { Parameter::Read(element) } else { Parameter::Write(element) };
        return Ok((parameter, name, place));
    }
    if equal(word, "const") {
        word = cursor.word();
    }
    let element = attempt!(element(word));
    let name = cursor.word();
    if name.is_empty() {
        return Err(SignatureError::Parameter);
    }
    Ok((Parameter::Scalar(element), name, *cursor))
}

/// Returns the name of a buffer for which the body at the cursor has no `REGION`, if any.
const fn missing_region(mut cursor: Cursor, signature: &Signature) -> Option<&'static str> {
    let mut is_named = [false; MOST_PARAMETERS];
    let mut depth = 0;
    loop {
        let word = cursor.word();
        if equal(word, "REGION") && cursor.take(b'(') {
            if let Some(n) = signature.position(cursor.word()) {
                is_named[n] = cursor.take(b')');
            }
        } else if cursor.take(b'{') {
            depth += 1;
        } else if cursor.take(b'}') {
            depth -= 1;
            if depth <= 0 {
                break;
            }
        } else if word.is_empty() {
            if cursor.is_at_end() {
                break;
            }
            cursor.advance();
        }
    }
    let mut n = 0;
    while n < signature.count {
        if !is_named[n] && !matches!(signature.parameters[n], Parameter::Scalar(_)) {
            return Some(signature.names[n]);
        }
        n += 1;
    }
    None
}

const fn element(word: &str) -> Result<ElementType, SignatureError> {
    Ok(match word.as_bytes() {
        b"double" => ElementType::F64,
        b"float" => ElementType::F32,
        b"int" => ElementType::I32,
        b"unsigned" => ElementType::U32,
        b"INT64" => ElementType::I64,
        b"UINT64" => ElementType::U64,
        _ => return Err(SignatureError::Parameter),
    })
}

pub(super) const fn equal(a: &str, b: &str) -> bool {
    let (a, b) = (a.as_bytes(), b.as_bytes());
    if a.len() != b.len() {
        return false;
    }
    let mut i = 0;
    while i < a.len() {
        if a[i] != b[i] {
            return false;
        }
        i += 1;
    }
    true
}

/// Returns the number of threads along one dimension of a group, given as a number or as a macro for one.
const fn threads(word: &str, defines: &[(&'static str, i64)]) -> u32 {
    let mut n = 0;
    while n < defines.len() {
        let (name, value) = defines[n];
        if equal(name, word) {
            return if value > 0 && value < 10_000 { value as u32 } else { 0 };
        }
        n += 1;
    }
    number(word.as_bytes(), 4) as u32
}

/// Parses a number of at most `most` digits; returns 0 if the text is not such a number.
pub(super) const fn number(digits: &[u8], most: usize) -> usize {
    let (mut value, mut n) = (0, 0);
    while n < digits.len() {
        if !digits[n].is_ascii_digit() || n == most {
            return 0;
        }
        value = value * 10 + (digits[n] - b'0') as usize;
        n += 1;
    }
    value
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "
        #define KERNEL(x, y, z) kernel_of(x, y, z)
        // KERNEL(1, 1, 1) axpy(int commented_out)
        /* KERNEL(2, 2, 2) axpy() */
        DEVICE double KERNELS(double x) { return x; }
        KERNEL(64, 2, 1) // two rows
        axpy(double a, IN(double, x, n), INOUT(double, y, (n)), /* of each */ const int n)
        { REGION(x); { REGION ( y ) ; } y[0] = x[0]; }
        KERNEL (8,1,1) none() {}
        KERNEL(8, 1, 1) odd(float *x) {}
        KERNEL(0, 1, 1) empty() {}
        KERNEL(8, 1, 1) unbounded(IN(double, x), OUT(double, y, 1)) { REGION(x); REGION(y); }
        KERNEL(8, 1, 1) forgets(IN(double, x, 1), OUT(double, y, 1)) { REGION(x); /* REGION(y); */ if (1) { y[0] = x[0]; } }
        KERNEL(8, 1, 1) comes_later(OUT(double, y, 1)) { REGION(y); }
    ";

    #[test]
    fn heads_are_parsed() {
        let signature = parse(TEXT, "axpy", &[]).unwrap();
        use ElementType::{F64, I32};
        let types = [Parameter::Scalar(F64), Parameter::Read(F64), Parameter::Write(F64), Parameter::Scalar(I32)];
        assert_eq!((signature.group, signature.check(&types)), ([64, 2, 1], Ok(())));
        assert_eq!(signature.names[..4], ["a", "x", "y", "n"]);
        assert_eq!(signature.check(&types[..3]), Err(SignatureError::Count));
        let swapped = [types[0], types[2], types[1], types[3]];
        assert_eq!(signature.check(&swapped), Err(SignatureError::Type));
        assert_eq!(parse(TEXT, "none", &[]).unwrap().check(&[]), Ok(()));
    }

    #[test]
    fn macros_set_threads_of_a_group() {
        const HEAD: &str = "KERNEL(ROWS, 4, 1) f(OUT(double, y, 1)) { REGION(y); }";
        assert_eq!(parse(HEAD, "f", &[("N", 7), ("ROWS", 32)]).unwrap().group, [32, 4, 1]);
        for value in [0, -1, 10_000] {
            assert_eq!(parse(HEAD, "f", &[("ROWS", value)]).unwrap_err(), SignatureError::Head, "{value}");
        }
        assert_eq!(parse(HEAD, "f", &[]).unwrap_err(), SignatureError::Head);
    }

    #[test]
    fn malformed_heads_are_reported() {
        let error = |text, name| parse(text, name, &[]).unwrap_err();
        assert_eq!(error(TEXT, "axp"), SignatureError::Missing);
        assert_eq!(error(TEXT, "odd"), SignatureError::Parameter);
        assert_eq!(error(TEXT, "empty"), SignatureError::Head);
        assert_eq!(error("KERNEL(1, 1, 1) f(int a", "f"), SignatureError::Parameter);
        assert_eq!(error("", "f"), SignatureError::Missing);
        assert_eq!(error("/* KERNEL(1,1,1) f(", "f"), SignatureError::Missing);
    }

    #[test]
    fn buffers_need_bounds_and_regions() {
        assert_eq!(parse(TEXT, "unbounded", &[]).unwrap_err(), SignatureError::Bounds { parameter: "x" });
        assert_eq!(parse(TEXT, "forgets", &[]).unwrap_err(), SignatureError::Region { parameter: "y" });
        assert!(parse(TEXT, "comes_later", &[]).is_ok());
    }
}
