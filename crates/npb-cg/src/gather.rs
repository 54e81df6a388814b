//! How the elements of a vector that a slice's entries need get together: by the instruction that gathers eight, or by loads of
//! one each. The numbers are the same.
//!
//! Processors differ: on Zen 4, where the instruction is a small program, loads take two thirds of its time (0.30 ns an
//! entry, not 0.45); elsewhere it is the other way round. So it is measured, once in a process.

#[cfg(target_arch = "x86_64")]
use {
    super::sliced::{LANES, Slices, WINDOW},
    pulp::x86::{V3, V4},
    std::hint::black_box,
    std::sync::OnceLock,
    std::time::{Duration, Instant},
};

/// By what a product with slices gathers.
#[derive(Clone, Copy, Debug)]
pub enum Gather {
    /// The instruction, with AVX-512.
    #[cfg(target_arch = "x86_64")]
    Instruction(V4),
    /// Loads, with AVX2: with more, compilers would take the instruction for them.
    #[cfg(target_arch = "x86_64")]
    Loads(V3),
    /// Loads, whatever the processor.
    Plain,
}

impl Gather {
    /// The fastest one here.
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

    /// All that there are here.
    pub fn all() -> Vec<Self> {
        #[cfg(target_arch = "x86_64")]
        let wide = V3::try_new().map(Self::Loads).into_iter().chain(V4::try_new().map(Self::Instruction));
        #[cfg(not(target_arch = "x86_64"))]
        let wide = [];
        wide.into_iter().chain([Self::Plain]).collect()
    }

    /// How long a product takes with a slice of entries from all of a window.
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
