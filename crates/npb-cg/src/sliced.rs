//! The matrix stored in slices, for cores. A slice has eight rows side by side, whose sums form a vector, within a
//! window of as many columns as fit into the nearest cache.
//!
//! This is SELL-C-σ (Kreutzer et al. 2014, section 3) with C = [`LANES`] and σ = 4096 (a strip), applied within
//! windows of [`WINDOW`] columns. A block's entries are ordered by strips of its rows; within a strip, by windows
//! of the columns; within a window, by slices. The rows of a strip are sorted by their number of entries in the
//! window, so that the rows of a slice have about the same length; shorter rows are padded with zeros. Columns
//! count from the window's first column, so they fit into 16 bits. The last window ends with the vector, so it
//! overlaps the previous window, unless there is only one window.
//!
//! Streamed data are prefetched. Measured on two AVX-512 cores, interleaved with runs of the previous version,
//! class A is 1.07 times as fast and class B 1.3 times. `gather.rs` chooses how the vector's elements are gathered.
//!
//! Invariants: a block's slices and entries are contiguous, so that they are regions of arrays; a row's entries
//! stay in the order of their columns, and a row's sum depends neither on the division into blocks nor on the
//! machine.

use std::ops::Range;

use super::gather::Gather;
use super::kernels::Product;
use super::matrix::Matrix;

/// Number of rows in a slice.
pub const LANES: usize = 8;
/// Number of columns in a window. A window covers 16 KiB of the vector, so a first-level cache of 32 KiB also has
/// room for entries, or for the same part of a second vector. With 4096, classes W and A run at about 0.95 times
/// the rate on Zen 4.
pub const WINDOW: usize = 2048;
/// Number of rows in a strip, small enough that their sums stay in a near cache.
pub const STRIP: usize = 4096;
/// Prefetch distance of values and columns, in entries: 2 KiB of values. Half to twice this distance is about as
/// good.
const AHEAD: usize = 256;
/// Marks a missing row in a strip's last slice.
const NOWHERE: u16 = u16::MAX;

/// Slices of all blocks.
#[derive(Debug, Default)]
pub struct Sliced {
    /// Number of entries in the rows of each slice.
    pub lengths: Vec<u32>,
    /// For each slice, the indices of its rows within the strip; 65,535 marks a missing row.
    pub places: Vec<u16>,
    /// The columns of all entries, slice by slice and entry by entry, with one column per row. Columns count from
    /// the window's first column.
    pub columns: Vec<u16>,
    /// The values, in the same order as the columns.
    pub values: Vec<f64>,
}

/// Position of a block's part in [`Sliced`].
#[derive(Clone, Debug)]
pub struct Part {
    slices: Range<usize>,
    entries: Range<usize>,
}

impl Part {
    /// Returns the block's range within `lengths`.
    pub fn lengths(&self) -> Range<usize> {
        self.slices.clone()
    }

    /// Returns the block's range within `places`.
    pub fn places(&self) -> Range<usize> {
        LANES * self.slices.start..LANES * self.slices.end
    }

    /// Returns the block's range within `columns` and `values`.
    pub fn entries(&self) -> Range<usize> {
        self.entries.clone()
    }
}

impl Sliced {
    /// Adds a block of rows; returns its position.
    pub fn push(&mut self, matrix: &Matrix, rows: Range<usize>) -> Part {
        let begin = self.end();
        let end = rows.end;
        for first in rows.step_by(STRIP) {
            let rows = (first..end.min(first + STRIP)).map(|row| matrix.entries(&(row..row + 1)));
            self.push_strip(matrix, rows.collect(), windows(matrix.rows(), matrix.rows()));
        }
        self.part(begin)
    }

    /// Returns the numbers of slices and entries so far, which is where the next block will begin.
    pub(crate) fn end(&self) -> (usize, usize) {
        (self.lengths.len(), self.values.len())
    }

    /// Returns the position of everything added since there were `slices` slices and `entries` entries.
    pub fn part(&self, (slices, entries): (usize, usize)) -> Part {
        Part { slices: slices..self.lengths.len(), entries: entries..self.values.len() }
    }

    /// Adds the entries of a strip's rows that lie in the given windows of columns. `left` holds the entries of
    /// each row that have not been added yet.
    pub(crate) fn push_strip(
        &mut self,
        matrix: &Matrix,
        mut left: Vec<Range<usize>>,
        windows: impl Iterator<Item = Range<usize>>,
    ) {
        for window in windows {
            let in_window = |entries: &mut Range<usize>| {
                let columns = &matrix.columns[entries.clone()];
                let end = entries.start + columns.partition_point(|&column| (column as usize) < window.end);
                std::mem::replace(&mut entries.start, end)..end
            };
            let mut strip: Vec<_> = left.iter_mut().map(in_window).enumerate().collect();
            strip.sort_by_key(|(_, entries)| std::cmp::Reverse(entries.len()));
            strip.chunks(LANES).for_each(|slice| self.push_slice(matrix, window.start, slice));
        }
    }

    fn push_slice(&mut self, matrix: &Matrix, first: usize, slice: &[(usize, Range<usize>)]) {
        let length = slice.iter().map(|(_, entries)| entries.len()).max().unwrap_or(0);
        self.lengths.push(u32::try_from(length).expect("a window's columns fit into 32 bits"));
        let row = |lane: usize| slice.get(lane);
        self.places.extend((0..LANES).map(|lane| row(lane).map_or(NOWHERE, |(place, _)| *place as u16)));
        for n in 0..length {
            let entry = |lane: usize| row(lane).and_then(|(_, entries)| entries.clone().nth(n));
            let column = |lane| entry(lane).map_or(0, |entry| matrix.columns[entry] as usize - first);
            self.columns.extend((0..LANES).map(|lane| column(lane) as u16));
            self.values.extend((0..LANES).map(|lane| entry(lane).map_or(0.0, |entry| matrix.values[entry])));
        }
    }

    /// Returns a block's part.
    pub fn slices(&self, part: &Part) -> Slices<'_> {
        Slices {
            lengths: &self.lengths[part.lengths()],
            places: &self.places[part.places()],
            columns: &self.columns[part.entries()],
            values: &self.values[part.entries()],
        }
    }
}

/// Returns windows that cover the first `columns` elements of a vector of `length`. If the last window would extend
/// beyond the vector, it is moved to end with the vector, so it overlaps the previous window, unless there is only
/// one window.
pub(crate) fn windows(columns: usize, length: usize) -> impl Iterator<Item = Range<usize>> {
    (0..columns).step_by(WINDOW).map(move |first| {
        let end = length.min(first + WINDOW);
        end.saturating_sub(WINDOW)..end
    })
}

/// A block's part of [`Sliced`].
#[derive(Clone, Copy, Debug)]
pub struct Slices<'a> {
    /// Number of entries in the rows of each slice.
    pub lengths: &'a [u32],
    /// The indices of each slice's rows within its strip.
    pub places: &'a [u16],
    /// The columns of the entries.
    pub columns: &'a [u16],
    /// The values of the entries.
    pub values: &'a [f64],
}

impl Product for Slices<'_> {
    fn times(self, vector: &[f64], product: &mut [f64]) {
        self.times_by(Gather::fastest(), vector, product);
    }
}

impl<'a> Slices<'a> {
    /// Computes [`Product::times`], gathering in the given way.
    pub fn times_by(self, gather: Gather, vector: &[f64], product: &mut [f64]) {
        match gather {
            #[cfg(target_arch = "x86_64")]
            Gather::Instruction(v4) => v4.vectorize(
                #[inline(always)]
                || self.compute::<false>(vector, product),
            ),
            #[cfg(target_arch = "x86_64")]
            Gather::Loads(v3) => v3.vectorize(
                #[inline(always)]
                || self.compute::<true>(vector, product),
            ),
            Gather::Plain => self.compute::<true>(vector, product),
        }
    }

    /// Computes [`Product::times`] with the instruction set of the function it is inlined into. If `LOADS`, it
    /// gathers with scalar loads; otherwise the compiler chooses. Nothing is contracted to fused multiply-adds, so
    /// all variants give the same numbers.
    #[inline(always)]
    fn compute<const LOADS: bool>(self, vector: &[f64], product: &mut [f64]) {
        let mut slices = self.each();
        // All windows have the same constant length, so no index needs a bounds check. A shorter vector is padded.
        let (windows, rest) = vector.as_chunks::<WINDOW>();
        let mut only = [0.0; WINDOW];
        let last = vector.last_chunk().unwrap_or_else(|| {
            only[..rest.len()].copy_from_slice(rest);
            &only
        });
        let last = (!rest.is_empty()).then_some(last);
        for product in product.chunks_mut(STRIP) {
            product.fill(0.0);
            for window in windows.iter().chain(last) {
                for slice in slices.by_ref().take(product.len().div_ceil(LANES)) {
                    let lanes = sums::<LOADS>(slice, window);
                    slice.add(lanes, product);
                }
            }
        }
    }

    /// Returns an iterator over the slices.
    #[inline(always)]
    pub(crate) fn each(self) -> Each<'a> {
        let (places, _) = self.places.as_chunks();
        let ((columns, _), (values, _)) = (self.columns.as_chunks(), self.values.as_chunks());
        Each { lengths: self.lengths, places, columns, values }
    }
}

/// Eight rows within a window.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Slice<'a> {
    /// The indices of the slice's rows within the strip.
    pub(crate) places: &'a [u16; LANES],
    /// The columns of each entry, counted from the window's first column.
    pub(crate) columns: &'a [[u16; LANES]],
    /// The values, in the same order as the columns.
    pub(crate) values: &'a [[f64; LANES]],
}

/// Iterator over the remaining slices.
pub(crate) struct Each<'a> {
    lengths: &'a [u32],
    places: &'a [[u16; LANES]],
    columns: &'a [[u16; LANES]],
    values: &'a [[f64; LANES]],
}

impl<'a> Iterator for Each<'a> {
    type Item = Slice<'a>;

    #[inline(always)]
    fn next(&mut self) -> Option<Slice<'a>> {
        let length = *self.lengths.split_off_first()? as usize;
        let entries = self.columns.split_off(..length).zip(self.values.split_off(..length));
        let (columns, values) = entries.expect("a slice's entries");
        Some(Slice { places: self.places.split_off_first()?, columns, values })
    }
}

impl Slice<'_> {
    /// Adds a sum for each row to the product of its strip.
    #[inline(always)]
    pub(crate) fn add(&self, sums: [f64; LANES], strip: &mut [f64]) {
        for (&place, sum) in self.places.iter().zip(sums) {
            if let Some(product) = strip.get_mut(place as usize) {
                *product += sum;
            }
        }
    }

    /// Returns the columns and the values of each entry, and prefetches the columns and values [`AHEAD`] entries
    /// later.
    #[inline(always)]
    pub(crate) fn entries(&self) -> impl Iterator<Item = (&[u16; LANES], &[f64; LANES])> {
        self.columns.iter().zip(self.values).inspect(|(columns, values)| {
            prefetch(values.as_ptr().wrapping_add(AHEAD));
            prefetch(columns.as_ptr().wrapping_add(AHEAD));
        })
    }
}

/// Returns the sums of a slice's rows within a window.
#[inline(always)]
fn sums<const LOADS: bool>(slice: Slice<'_>, window: &[f64; WINDOW]) -> [f64; LANES] {
    let mut sums = [0.0; LANES];
    for (columns, values) in slice.entries() {
        let words = words(columns);
        for lane in 0..LANES {
            let column = if LOADS { in_words(words, lane) } else { columns[lane].into() };
            sums[lane] += values[lane] * window[column as usize % WINDOW];
        }
    }
    sums
}

/// Returns eight columns in two words, each of which takes one load.
#[inline(always)]
pub(crate) fn words(columns: &[u16; LANES]) -> [u64; 2] {
    let (fours, _) = columns.as_chunks();
    [four(fours[0]), four(fours[1])]
}

/// Returns one of the columns in the low bits; the other bits are arbitrary.
#[inline(always)]
pub(crate) fn in_words(words: [u64; 2], lane: usize) -> u64 {
    words[lane / 4] >> (16 * (lane % 4))
}

/// Returns four columns in one word, which takes one load.
#[inline(always)]
fn four(columns: [u16; 4]) -> u64 {
    columns.into_iter().rev().fold(0, |word, column| word << 16 | u64::from(column))
}

/// Hints that a cache line should be brought to the nearest cache. The hint has no other effect.
#[inline(always)]
#[allow(unsafe_code)]
fn prefetch<T>(address: *const T) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a prefetch is only a hint. It reads nothing and cannot fault, so it is sound for any address.
    unsafe {
        std::arch::x86_64::_mm_prefetch::<{ std::arch::x86_64::_MM_HINT_T0 }>(address.cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = address;
}
