//! Two ways to gather the vector elements for a slice's entries: the AVX-512 gather instruction, which gathers
//! eight elements, or scalar loads. Both give identical results.
//!
//! Which way is faster depends on the processor. On Zen 4, which implements the instruction in microcode, scalar
//! loads take two thirds of the instruction's time (0.30 ns per entry instead of 0.45); elsewhere the instruction
//! is faster. So the choice is made by a measurement, once per process.

#[cfg(target_arch = "x86_64")]
use {
    super::sliced::{LANES, Slices, WINDOW},
    pulp::x86::{V3, V4},
    std::hint::black_box,
    std::sync::OnceLock,
    std::time::{Duration, Instant},
};

/// How a product with slices gathers vector elements.
#[derive(Clone, Copy, Debug)]
pub enum Gather {
    /// The gather instruction of AVX-512.
    #[cfg(target_arch = "x86_64")]
    Instruction(V4),
    /// Scalar loads, compiled for AVX2. Compiled for AVX-512, they would be replaced by the gather instruction.
    #[cfg(target_arch = "x86_64")]
    Loads(V3),
    /// Scalar loads on any processor.
    Plain,
}

impl Gather {
    /// Returns the fastest way on this processor.
    #[cfg(target_arch = "x86_64")]
    pub(crate) fn fastest() -> Self {
        static FASTEST: OnceLock<Gather> = OnceLock::new();
        *FASTEST.get_or_init(|| match (V3::try_new().map(Self::Loads), V4::try_new().map(Self::Instruction)) {
            (Some(loads), Some(instruction)) if instruction.time() < loads.time() => instruction,
            (Some(loads), _) => loads,
            (None, _) => Self::Plain,
        })
    }

    #[cfg(not(target_arch = "x86_64"))]
    pub(crate) fn fastest() -> Self {
        Self::Plain
    }

    /// Returns all ways that this processor supports.
    pub fn all() -> Vec<Self> {
        #[cfg(target_arch = "x86_64")]
        let wide = V3::try_new().map(Self::Loads).into_iter().chain(V4::try_new().map(Self::Instruction));
        #[cfg(not(target_arch = "x86_64"))]
        let wide = [];
        wide.into_iter().chain([Self::Plain]).collect()
    }

    /// Measures a product with a slice whose entries are spread over a whole window.
    #[cfg(target_arch = "x86_64")]
    fn time(self) -> Duration {
        const ENTRIES: usize = 1024;
        const TURNS: usize = 20;
        let columns: Vec<u16> = (0..LANES * ENTRIES).map(|n| (n * 2731 % WINDOW) as u16).collect();
        let (values, vector) = (vec![1.0; LANES * ENTRIES], vec![1.0; WINDOW]);
        let places: [u16; LANES] = std::array::from_fn(|lane| lane as u16);
        let slices = Slices { lengths: &[ENTRIES as u32], places: &places, columns: &columns, values: &values };
        let turn = |_| {
            let start = Instant::now();
            black_box(slices).times_by(self, black_box(&vector), black_box(&mut [0.0; LANES]));
            start.elapsed()
        };
        (0..TURNS).map(turn).min().expect("there are turns")
    }
}
