//! Parser for kernel parameters in source text written in an interface's own language.
//!
//! The parser understands plain C and PTX parameters. Parameters that use templates, macros, references or namespaces
//! are refused rather than guessed. All functions are `const`, like the parser for the dialect (`signature.rs`).

use super::cursor::Cursor;
use super::module::{CParameter, ModuleError, Passed};
use super::signature::{equal, number};

/// Maximum number of words in one parameter type.
const MOST_WORDS: usize = 6;

/// Checks the kernel's parameters in CUDA C++, HIP C++ or OpenCL C source text. In OpenCL C, an integer parameter
/// must follow each buffer.
pub(super) const fn check(
    text: &'static str,
    name: &str,
    expected: &[CParameter],
    is_opencl: bool,
) -> Result<(), ModuleError> {
    let mut cursor = Cursor::new(text);
    if !find_kernel(&mut cursor, name) {
        return Err(ModuleError::Missing);
    }
    let (mut n, mut place) = (0, 0);
    let mut ends = cursor.take(b')');
    while !ends {
        let Some(found) = parameter(&mut cursor) else { return Err(ModuleError::Parameter { parameter: place }) };
        if n == expected.len() {
            return Err(ModuleError::Count);
        }
        if !found.is(&expected[n]) {
            return Err(ModuleError::Type { parameter: place });
        }
        (ends, place) = (found.is_last, place + 1);
        if is_opencl && !matches!(expected[n].passed, Passed::Value) {
            if ends {
                return Err(ModuleError::Count);
            }
            let Some(first) = parameter(&mut cursor) else { return Err(ModuleError::Parameter { parameter: place }) };
            let number = CParameter { passed: Passed::Value, names: &["ulong", "unsigned long"], bytes: 8 };
            if !first.is(&number) {
                return Err(ModuleError::Type { parameter: place });
            }
            (ends, place) = (first.is_last, place + 1);
        }
        n += 1;
    }
    if n == expected.len() { Ok(()) } else { Err(ModuleError::Count) }
}

/// Moves past the bracket that opens the kernel's parameter list; returns whether the kernel was found.
const fn find_kernel(cursor: &mut Cursor, name: &str) -> bool {
    let mut is_kernel = false;
    loop {
        let word = cursor.word();
        if word.is_empty() {
            if cursor.is_at_end() {
                return false;
            }
            if cursor.take(b';') || cursor.take(b'{') || cursor.take(b'}') {
                is_kernel = false;
            } else {
                cursor.advance();
            }
        } else if equal(word, "__global__") || equal(word, "__kernel") || equal(word, "kernel") {
            is_kernel = true;
        } else if is_kernel && equal(word, name) && cursor.take(b'(') {
            return true;
        }
    }
}

/// A parsed C parameter.
struct Found {
    words: [&'static str; MOST_WORDS],
    count: usize,
    is_address: bool,
    is_const: bool,
    is_last: bool,
}

impl Found {
    const fn is(&self, expected: &CParameter) -> bool {
        let (is_address, is_const) = match expected.passed {
            Passed::Value => (false, self.is_const),
            Passed::Read => (true, true),
            Passed::Write => (true, false),
        };
        if self.is_address != is_address || self.is_const != is_const {
            return false;
        }
        let mut n = 0;
        while n < expected.names.len() {
            if self.has_words(expected.names[n]) {
                return true;
            }
            n += 1;
        }
        false
    }

    const fn has_words(&self, name: &'static str) -> bool {
        let (mut cursor, mut n) = (Cursor::new(name), 0);
        while n < self.count {
            if !equal(self.words[n], cursor.word()) {
                return false;
            }
            n += 1;
        }
        cursor.word().is_empty()
    }
}

/// Parses the next parameter, up to the comma or bracket after it. Returns `None` if it is not a plain parameter.
const fn parameter(cursor: &mut Cursor) -> Option<Found> {
    let mut found = Found { words: [""; MOST_WORDS], count: 0, is_address: false, is_const: false, is_last: false };
    let mut named = false;
    loop {
        let word = cursor.word();
        if !word.is_empty() {
            if equal(word, "const") {
                // After the star, `const` applies to the address.
                found.is_const |= !found.is_address;
            } else if found.is_address && !qualifies(word) {
                if named {
                    return None;
                }
                named = true;
            } else if qualifies(word) {
                // the qualifier does not affect the host
            } else if found.count == MOST_WORDS {
                return None;
            } else {
                found.words[found.count] = word;
                found.count += 1;
            }
        } else if cursor.take(b'*') {
            if found.is_address || named {
                return None;
            }
            found.is_address = true;
        } else if cursor.take(b',') {
            break;
        } else if cursor.take(b')') {
            found.is_last = true;
            break;
        } else {
            return None;
        }
    }
    if !found.is_address && found.count > 1 {
        found.count -= 1; // the last word is the parameter's name
    }
    if found.count == 0 { None } else { Some(found) }
}

/// Returns whether the word is a qualifier that does not affect the values that the host passes.
const fn qualifies(word: &str) -> bool {
    let words = [
        "struct",
        "volatile",
        "restrict",
        "__restrict",
        "__restrict__",
        "__global",
        "global",
        "__constant",
        "constant",
        "__grid_constant__",
    ];
    let mut n = 0;
    while n < words.len() {
        if equal(word, words[n]) {
            return true;
        }
        n += 1;
    }
    false
}

/// Compares the sizes of a kernel's parameters in PTX. Only sizes can be compared, because PTX declares structures as
/// plain byte arrays.
pub(super) const fn check_ptx(text: &'static str, name: &str, expected: &[CParameter]) -> Result<(), ModuleError> {
    let mut cursor = Cursor::new(text);
    loop {
        let word = cursor.word();
        if equal(word, "entry") {
            if equal(cursor.word(), name) && cursor.take(b'(') {
                break;
            }
        } else if word.is_empty() {
            if cursor.is_at_end() {
                return Err(ModuleError::Missing);
            }
            cursor.advance();
        }
    }
    let mut n = 0;
    let mut ends = cursor.take(b')');
    while !ends {
        let Some((bytes, is_last)) = ptx_parameter(&mut cursor) else {
            return Err(ModuleError::Parameter { parameter: n });
        };
        if n == expected.len() {
            return Err(ModuleError::Count);
        }
        if bytes != expected[n].bytes {
            return Err(ModuleError::Type { parameter: n });
        }
        (n, ends) = (n + 1, is_last);
    }
    if n == expected.len() { Ok(()) } else { Err(ModuleError::Count) }
}

/// The most digits of a number in PTX.
const DIGITS: usize = 6;

/// Returns the size of the next parameter in bytes, and whether it is the last.
const fn ptx_parameter(cursor: &mut Cursor) -> Option<(usize, bool)> {
    let (mut element, mut elements) = (0, 1);
    loop {
        if cursor.take(b'.') {
            let word = cursor.word();
            let is_type = matches!(word.as_bytes(), [b'b' | b'u' | b's' | b'f', rest @ ..] if number(rest, DIGITS) > 0);
            if is_type {
                element = number(word.as_bytes().split_at(1).1, DIGITS) / 8;
            }
        } else if cursor.take(b'[') {
            elements = number(cursor.word().as_bytes(), DIGITS);
            if !cursor.take(b']') {
                return None;
            }
        } else if cursor.take(b',') || cursor.is_at_end() {
            break;
        } else if cursor.take(b')') {
            return if element * elements > 0 { Some((element * elements, true)) } else { None };
        } else if cursor.word().is_empty() {
            cursor.advance();
        }
    }
    if element * elements > 0 && !cursor.is_at_end() { Some((element * elements, false)) } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::{CType, ModuleParameters, Plain, Read, Write};
    use ModuleError::{Count, Missing, Parameter, Type};

    #[derive(Clone, Copy, bytemuck::Pod, bytemuck::Zeroable)]
    #[repr(C)]
    struct Box3 {
        lo: [i32; 3],
        hi: [i32; 3],
    }

    impl CType for Box3 {
        const NAMES: &'static [&'static str] = &["box"];
    }

    const CUDA: &str = r#"
        struct box { int lo[3], hi[3]; };
        static __device__ float other(float x) { return x; }
        extern "C" __global__ void __launch_bounds__(64, 2) axpy(
            const double *__restrict__ x, /* in */ double* __restrict__ y, double a, const unsigned long long n) {}
        extern "C" __global__ void lone() { other(1); }
        extern "C" __global__ void boxes(struct box b, const box *all) {}
        template <class T> __global__ void odd(vec<T> x, int n) {}
    "#;
    const OPENCL: &str = "
        __kernel __attribute__((reqd_work_group_size(64, 1, 1)))
        void axpy(__global const double *x, ulong x0, __global double *y, unsigned long y0, double a, ulong n) {}
        kernel void bare(global float *x) {}
    ";
    const PTX: &str = "
        .version 7.0
        .visible .entry axpy(
            .param .u64 axpy_param_0,
            .param .u64 .ptr .global .align 8 axpy_param_1,
            .param .f64 axpy_param_2, // a
            .param .u64 axpy_param_3
        ) .maxntid 64, 1, 1 { ret; }
        .entry boxes(.param .align 4 .b8 boxes_param_0[24], .param .u64 boxes_param_1) { ret; }
        .entry lone() { ret; }
    ";

    type Axpy = (Read<f64>, Write<f64>, f64, u64);
    type Boxes = (Plain<Box3>, Read<Box3>);

    fn of<P: ModuleParameters>(text: &'static str, name: &str) -> Result<(), ModuleError> {
        if text == PTX { check_ptx(text, name, P::LIST) } else { check(text, name, P::LIST, text == OPENCL) }
    }

    #[test]
    fn plain_parameters_are_parsed_in_each_language() {
        for text in [CUDA, OPENCL, PTX] {
            assert_eq!(of::<Axpy>(text, "axpy"), Ok(()), "{text}");
            assert_eq!(of::<(Read<f64>,)>(text, "axpy"), Err(Count), "{text}");
            assert_eq!(of::<(Read<f64>, Write<f64>, f64, u64, i32)>(text, "axpy"), Err(Count), "{text}");
            assert_eq!(of::<Axpy>(text, "axp"), Err(Missing), "{text}");
        }
        for text in [CUDA, PTX] {
            assert_eq!(of::<()>(text, "lone"), Ok(()), "{text}");
            assert_eq!(of::<Boxes>(text, "boxes"), Ok(()), "{text}");
        }
    }

    #[test]
    fn differing_parameter_is_named() {
        assert_eq!(of::<(Write<f64>, Write<f64>, f64, u64)>(CUDA, "axpy"), Err(Type { parameter: 0 }));
        assert_eq!(of::<(Read<f64>, Read<f64>, f64, u64)>(CUDA, "axpy"), Err(Type { parameter: 1 }));
        assert_eq!(of::<(Read<f64>, Write<f64>, f32, u64)>(CUDA, "axpy"), Err(Type { parameter: 2 }));
        assert_eq!(of::<(Read<f64>, Write<f64>, f32, u64)>(OPENCL, "axpy"), Err(Type { parameter: 4 }));
        assert_eq!(of::<(Read<f64>, Write<f64>, f64, i32)>(PTX, "axpy"), Err(Type { parameter: 3 }));
        assert_eq!(of::<(Write<f32>,)>(OPENCL, "bare"), Err(Count), "no number after the buffer");
        assert_eq!(of::<(i32, i32)>(CUDA, "odd"), Err(Parameter { parameter: 0 }));
        assert_eq!(of::<()>("__global__ void f(", "f"), Err(Parameter { parameter: 0 }));
        assert_eq!(of::<()>("", "f"), Err(Missing));
    }
}
