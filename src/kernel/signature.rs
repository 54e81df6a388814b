//! Reads a kernel's head: its group and its parameters.
//!
//! All is `const`, so that a [`super::Kernel`] can be checked against its text while the program is compiled. What it
//! understands is the grammar of heads alone: `KERNEL(x, y, z) name(parameter, ..)`, comments anywhere, and as parameters
//! `IN(type, name)`, `OUT(type, name)`, `INOUT(type, name)` or a scalar `type name`. It never reads a kernel's body.

/// How many parameters a kernel can have.
pub const MOST_PARAMETERS: usize = 32;

/// A type that kernels and host agree on.
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
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Parameter {
    /// A value.
    Scalar(ElementType),
    /// Elements in device memory, to be read.
    Read(ElementType),
    /// Elements in device memory, to be read and written.
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

/// What is wrong with a kernel's head, or with the types that the host gives it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SignatureError {
    /// No head has this name.
    #[error("the text has no `KERNEL(x, y, z) name(..)` of this name")]
    Missing,
    /// The head is not understood.
    #[error("the kernel's head is not `KERNEL(x, y, z) name(parameters)` with numbers above 0 for its group")]
    Head,
    /// A parameter is not understood.
    #[error(
        "a parameter is neither `IN(type, name)`, `OUT(type, name)`, `INOUT(type, name)` nor `type name`, or of a type that hosts do not have"
    )]
    Parameter,
    /// There are too many of them.
    #[error("the kernel has more than 32 parameters")]
    TooMany,
    /// The host has another number of parameters.
    #[error("the kernel has another number of parameters than its Rust type")]
    Count,
    /// A parameter differs.
    #[error("a parameter of the kernel differs from its Rust type")]
    Type,
}

impl SignatureError {
    pub(super) const fn message(self) -> &'static str {
        match self {
            Self::Missing => "the text has no `KERNEL(x, y, z) name(..)` of this name",
            Self::Head => "the kernel's head is not `KERNEL(x, y, z) name(parameters)` with numbers above 0",
            Self::Parameter => "a parameter is not understood; see `kernels/dialect.h`",
            Self::TooMany => "the kernel has more than 32 parameters",
            Self::Count => "the kernel has another number of parameters than its Rust type",
            Self::Type => "a parameter of the kernel differs from its Rust type",
        }
    }
}

/// A kernel's head.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Signature {
    pub(crate) group: [u32; 3],
    parameters: [Parameter; MOST_PARAMETERS],
    count: usize,
}

impl Signature {
    /// Whether these are the parameters.
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
}

/// `?` for constants.
macro_rules! attempt {
    ($result:expr) => {
        match $result {
            Ok(value) => value,
            Err(error) => return Err(error),
        }
    };
}

/// The head of the kernel `name` in `text`.
pub(super) const fn parse(text: &str, name: &str) -> Result<Signature, SignatureError> {
    let mut cursor = Cursor { text: text.as_bytes(), at: 0 };
    loop {
        let word = cursor.word();
        if word.is_empty() {
            if cursor.at >= cursor.text.len() {
                return Err(SignatureError::Missing);
            }
            cursor.at += 1;
            continue;
        }
        if !equal(word, b"KERNEL") || !cursor.take(b'(') {
            continue;
        }
        let mut group = [0; 3];
        let mut d = 0;
        while d < 3 {
            group[d] = number(cursor.word());
            if !cursor.take(if d < 2 { b',' } else { b')' }) {
                break; // the macro's own definition, or a mistake that shows below
            }
            d += 1;
        }
        if !equal(cursor.word(), name.as_bytes()) {
            continue;
        }
        if d < 3 || group[0] * group[1] * group[2] == 0 || !cursor.take(b'(') {
            return Err(SignatureError::Head);
        }
        return parameters(cursor, group);
    }
}

const fn parameters(mut cursor: Cursor<'_>, group: [u32; 3]) -> Result<Signature, SignatureError> {
    let mut parameters = [Parameter::Scalar(ElementType::F64); MOST_PARAMETERS];
    let mut count = 0;
    if cursor.take(b')') {
        return Ok(Signature { group, parameters, count });
    }
    loop {
        if count == MOST_PARAMETERS {
            return Err(SignatureError::TooMany);
        }
        parameters[count] = attempt!(parameter(&mut cursor));
        count += 1;
        if cursor.take(b')') {
            return Ok(Signature { group, parameters, count });
        }
        if !cursor.take(b',') {
            return Err(SignatureError::Parameter);
        }
    }
}

const fn parameter(cursor: &mut Cursor<'_>) -> Result<Parameter, SignatureError> {
    let mut word = cursor.word();
    let reads = equal(word, b"IN");
    if reads || equal(word, b"OUT") || equal(word, b"INOUT") {
        if !cursor.take(b'(') {
            return Err(SignatureError::Parameter);
        }
        let element = attempt!(element(cursor.word()));
        if !cursor.take(b',') || cursor.word().is_empty() || !cursor.take(b')') {
            return Err(SignatureError::Parameter);
        }
        return Ok(if reads { Parameter::Read(element) } else { Parameter::Write(element) });
    }
    if equal(word, b"const") {
        word = cursor.word();
    }
    let element = attempt!(element(word));
    if cursor.word().is_empty() {
        return Err(SignatureError::Parameter);
    }
    Ok(Parameter::Scalar(element))
}

const fn element(word: &[u8]) -> Result<ElementType, SignatureError> {
    Ok(match word {
        b"double" => ElementType::F64,
        b"float" => ElementType::F32,
        b"int" => ElementType::I32,
        b"unsigned" => ElementType::U32,
        b"INT64" => ElementType::I64,
        b"UINT64" => ElementType::U64,
        _ => return Err(SignatureError::Parameter),
    })
}

const fn equal(a: &[u8], b: &[u8]) -> bool {
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

/// A number of at most four digits; 0 if it is none.
const fn number(word: &[u8]) -> u32 {
    let (mut value, mut i) = (0, 0);
    while i < word.len() {
        if !word[i].is_ascii_digit() || i == 4 {
            return 0;
        }
        value = value * 10 + (word[i] - b'0') as u32;
        i += 1;
    }
    value
}

struct Cursor<'a> {
    text: &'a [u8],
    at: usize,
}

impl<'a> Cursor<'a> {
    const fn peek(&self, ahead: usize) -> u8 {
        if self.at + ahead < self.text.len() { self.text[self.at + ahead] } else { 0 }
    }

    const fn skip(&mut self) {
        loop {
            match (self.peek(0), self.peek(1)) {
                (b'/', b'/') => {
                    while self.at < self.text.len() && self.peek(0) != b'\n' {
                        self.at += 1;
                    }
                }
                (b'/', b'*') => {
                    self.at += 2;
                    while self.at < self.text.len() && !(self.peek(0) == b'*' && self.peek(1) == b'/') {
                        self.at += 1;
                    }
                    self.at = if self.at + 2 < self.text.len() { self.at + 2 } else { self.text.len() };
                }
                (c, _) if c.is_ascii_whitespace() => self.at += 1,
                _ => return,
            }
        }
    }

    /// The letters, digits and underscores ahead; empty if something else comes first.
    const fn word(&mut self) -> &'a [u8] {
        self.skip();
        let start = if self.at < self.text.len() { self.at } else { self.text.len() };
        while self.peek(0).is_ascii_alphanumeric() || self.peek(0) == b'_' {
            self.at += 1;
        }
        let (_, rest) = self.text.split_at(start);
        rest.split_at(self.at.saturating_sub(start)).0
    }

    const fn take(&mut self, expected: u8) -> bool {
        self.skip();
        let found = self.peek(0) == expected;
        if found {
            self.at += 1;
        }
        found
    }
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
        axpy(double a, IN(double, x), INOUT(double, y), /* of each */ const int n) { y[0] = x[0]; }
        KERNEL (8,1,1) none() {}
        KERNEL(8, 1, 1) odd(float *x) {}
        KERNEL(0, 1, 1) empty() {}
    ";

    #[test]
    fn reads_heads() {
        let signature = parse(TEXT, "axpy").unwrap();
        use ElementType::{F64, I32};
        let types = [Parameter::Scalar(F64), Parameter::Read(F64), Parameter::Write(F64), Parameter::Scalar(I32)];
        assert_eq!((signature.group, signature.check(&types)), ([64, 2, 1], Ok(())));
        assert_eq!(signature.check(&types[..3]), Err(SignatureError::Count));
        let swapped = [types[0], types[2], types[1], types[3]];
        assert_eq!(signature.check(&swapped), Err(SignatureError::Type));
        assert_eq!(parse(TEXT, "none").unwrap().check(&[]), Ok(()));
    }

    #[test]
    fn says_what_it_does_not_understand() {
        assert_eq!(parse(TEXT, "axp").unwrap_err(), SignatureError::Missing);
        assert_eq!(parse(TEXT, "odd").unwrap_err(), SignatureError::Parameter);
        assert_eq!(parse(TEXT, "empty").unwrap_err(), SignatureError::Head);
        assert_eq!(parse("KERNEL(1, 1, 1) f(int a", "f").unwrap_err(), SignatureError::Parameter);
        assert_eq!(parse("", "f").unwrap_err(), SignatureError::Missing);
        assert_eq!(parse("/* KERNEL(1,1,1) f(", "f").unwrap_err(), SignatureError::Missing);
    }
}
