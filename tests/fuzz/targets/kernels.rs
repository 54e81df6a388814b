//! Texts of kernels in the dialect and in other languages, and functions of loops.

#![allow(unsafe_code)] // promises about texts that no compiler ever sees

use super::{owned, with_text};
use thalweg::kernel::{Kernel, Module, ModuleKernel, Program, Read, Write};

/// Inputs of greater length or depth are skipped: texts are kept for the process's life, and `syn` recurses.
const MOST_BYTES: usize = 4096;
const MOST_DEPTH: usize = 64;

pub(crate) fn valid_kernels() -> Vec<Vec<u8>> {
    owned(&[
        "KERNEL(64, 1, 1) k(IN(double, x, n), OUT(double, y, n), int n)
         { REGION(x); REGION(y); int i = GLOBAL_ID(0); if (i < n) y[i] = 2 * x[i]; }",
        "/* heat */ KERNEL(16, 16, 1) k(IN(double, x, [n + 2 : s][2*n]), INOUT(double, y, [n:s][n]), INT64 n, UINT64 s)
         { // both
           REGION(x); REGION(y); }",
        "KERNEL(GROUP, 1, 1) other(OUT(float, x, 1)) {REGION(x);} KERNEL(8,8,8) k(IN(double,x,n*(m-1)),IN(int,z,[n][m]),
         OUT(double,y,n+m*3),int n,long m){REGION(x);REGION(z);REGION(y);}",
    ])
}

pub(crate) fn kernels(bytes: &[u8]) {
    with_kept_text(bytes, |text| {
        // SAFETY: the text is only parsed.
        let program = unsafe { Program::new("fuzzed", text) }.define("GROUP", 32);
        if let Ok(kernel) = Kernel::<(Read<f64>, Write<f64>, i32)>::checked(&program, "k") {
            assert!(kernel.group().iter().all(|threads| *threads > 0));
            assert!(text.contains("KERNEL") && text.contains("REGION"));
        }
    });
}

pub(crate) fn valid_modules() -> Vec<Vec<u8>> {
    owned(&[
        "extern \"C\" __global__ void k(const double *x, double *__restrict__ y, int n) { y[0] = x[0]; }",
        "__kernel void k(__global const double *x, ulong x0, __global double *restrict y, ulong y0, int n) {}",
        ".version 7.0\n.target sm_50\n.visible .entry k(\n.param .u64 k_param_0,\n.param .u64 k_param_1,\n\
         .param .u32 k_param_2\n)\n{ ret; }",
    ])
}

pub(crate) fn modules(bytes: &[u8]) {
    with_kept_text(bytes, |text| {
        let empty = Module::new("fuzzed");
        for module in [empty.cuda(text), empty.hip(text), empty.opencl(text), empty.ptx(text)] {
            type Parameters = (Read<f64>, Write<f64>, i32);
            let _ = ModuleKernel::<Parameters>::checked(&module, "k", [64, 1, 1]);
        }
    });
}

pub(crate) fn valid_loops() -> Vec<Vec<u8>> {
    owned(&[
        "#[target] fn f(a: &[f64], b: &[f64], c: Out<'_, [f64]>) { for i in 0..c.len() { c[i] = a[i] + b[i]; } }",
        "#[target(teams(thread_limit = 8))] fn f(x: &[f64], y: &mut [f64], n: usize) {
             #[distribute] for i in 0..n { for j in 0..8usize {
                 let mut kept = [x[i]; 5]; y[i * 16 + j * 2] = x[i]; y[i * 16 + j * 2 + 1] -= kept[0];
         } } }",
        "const W: f64 = 0.25; #[device] fn mean(a: f64, b: f64) -> f64 { if a > b { W * a } else { (a + b) / 2.0 } }
         #[target(collapse(2))] fn f(x: ArrayView2<'_, f64>, mut y: ArrayViewMut2<'_, f64>) {
             for i in 1..x.dim().0 - 1 { for j in (1..x.dim().1 - 1).step_by(2) {
                 y[[i, j]] = mean(x[[i - 1, j]], x[[i + 1, j]]).sqrt(); } } }",
        "#[target] fn f(x: &[f32], total: Sum<'_, f32>, n: u32) { for i in 0..x.len() { *total += x[i] * n as f32; } }",
    ])
}

/// Neither the translation of a file nor the attribute panics, and a translated function defines its kernel.
pub(crate) fn loops(bytes: &[u8]) {
    with_text(bytes, |text| {
        if text.len() > MOST_BYTES || depth(text) > MOST_DEPTH {
            return;
        }
        if let Ok(kernel) = thalweg_loops::kernel_text(text, "f") {
            assert!(kernel.contains("KERNEL("), "{kernel}");
        }
        let (options, function) = text.split_once(';').unwrap_or(("", text));
        if let (Ok(options), Ok(function)) = (options.parse(), function.parse()) {
            assert!(!thalweg_loops::target(options, function).is_empty());
        }
    });
}

/// Returns an upper limit of the depth to which a parser of the text recurses.
fn depth(text: &str) -> usize {
    let (mut open, mut deepest, mut prefixes, mut longest) = (0usize, 0, 0, 0);
    for byte in text.bytes() {
        match byte {
            b'(' | b'[' | b'{' | b'<' => open += 1,
            b')' | b']' | b'}' | b'>' => open = open.saturating_sub(1),
            _ => {}
        }
        prefixes = if b"!&*-|?.".contains(&byte) { prefixes + 1 } else { 0 };
        (deepest, longest) = (deepest.max(open), longest.max(prefixes));
    }
    deepest + longest + text.bytes().filter(|byte| *byte == b'=').count()
}

/// Like [`with_text`], with a text that is kept, as the texts of programs are.
fn with_kept_text(bytes: &[u8], read: impl FnOnce(&'static str)) {
    with_text(bytes, |text| {
        if text.len() <= MOST_BYTES {
            read(text.to_owned().leak());
        }
    });
}
