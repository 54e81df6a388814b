//! Facts about a loop nest for the actual sizes and bounds of one launch. They are collected by a function that the
//! attribute generates, the plan.
//!
//! Invariants: `fits` is true only if no index that the plan has seen is out of the array's bounds; an array is cut
//! only such that every element that an iteration touches is within that iteration's part.

use super::disjoint::{Role, are_apart, rest};
use super::extents::Extents;
use super::form::{Form, Interval, Known, Whole};
use super::windows::Piece;
use std::collections::BTreeMap;

/// Bound on the ends of shared-out loops. It keeps them away from the limits of 64-bit integers, because threads step
/// beyond the ends.
const FAR: i128 = 1 << 62;

/// An access to a written array.
#[derive(Debug, Clone)]
struct Touch {
    /// The index of the loop over threads that contains the access, counted from 1; 0 outside such loops.
    region: usize,
    is_write: bool,
    /// The loops over threads around the access.
    around: Vec<usize>,
    /// The indices of the access; `None` if any of them is unknown.
    indices: Option<Vec<Known>>,
}

/// The facts about a nest; see the module documentation.
#[derive(Debug)]
pub struct Nest {
    ranges: Vec<Interval>,
    /// The shared-out loops, starting with the outermost loop and followed by the loops over threads: level,
    /// variable, and maximum number of trips.
    shared: Vec<(usize, usize, i128)>,
    touches: Vec<Vec<Touch>>,
    pub(super) fits: bool,
    /// An array for which the team's copy is too small: the array's name, its length, and the capacity of the copy.
    pub(super) too_long: Option<(&'static str, usize, usize)>,
    is_too_far: bool,
    /// For arrays that pieces access through windows, the touched indices, by array index; `None` means all elements.
    seen: BTreeMap<usize, Option<Vec<Interval>>>,
}

/// Describes where an array is cut between iterations.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cut {
    pub(super) dimension: usize,
    /// The part of iteration i starts at index `i * stride + first`, and ends where the part of iteration i + 1
    /// starts.
    pub(super) stride: i128,
    pub(super) first: i128,
}

impl Nest {
    /// Creates a nest that writes the given number of arrays.
    pub fn new(arrays: usize) -> Self {
        let touches = vec![Vec::new(); arrays];
        Self {
            ranges: Vec::new(),
            shared: Vec::new(),
            touches,
            fits: true,
            too_long: None,
            is_too_far: false,
            seen: BTreeMap::new(),
        }
    }

    /// Adds a loop and returns its variable. Shared-out loops have a level.
    pub fn range<T: Whole>(&mut self, level: Option<usize>, first: Form, end: Form, is_inclusive: bool) -> Form {
        let ends = first.all().zip(end.all());
        let range =
            ends.map(|(first, end)| Interval::new(first.least, if is_inclusive { end.most } else { end.most - 1 }));
        let number = self.ranges.len();
        self.ranges.push(range.unwrap_or(Interval::new(i128::MIN / 4, i128::MAX / 4)));
        if let Some(level) = level {
            let range = self.ranges[number];
            self.is_too_far |= !range.is_empty() && (range.least < -FAR || range.most > FAR);
            self.shared.push((level, number, range.width()));
        }
        range.map_or(Form::UNKNOWN, |range| Form::variable(number, range)).fit::<T>()
    }

    /// Adds the outermost loop, restricted to the given piece, and returns its variable.
    pub fn piece<T: Whole>(&mut self, piece: Piece) -> Form {
        let end = |number: i128| Form::within(Interval::new(number, number));
        self.range::<T>(Some(0), end(piece.first), end(piece.end), false)
    }

    /// Adds an access to an array that the piece accesses through a window.
    pub fn see(&mut self, array: usize, indices: &[Form]) {
        let all: Option<Vec<Interval>> = indices.iter().map(|index| index.all()).collect();
        if all.as_ref().is_some_and(|all| all.iter().any(|index| index.is_empty())) {
            return;
        }
        let seen = self.seen.entry(array).or_insert_with(|| all.clone());
        *seen = seen.take().zip(all).map(|(seen, all)| {
            let hull = |(a, b): (&Interval, &Interval)| Interval::new(a.least.min(b.least), a.most.max(b.most));
            seen.iter().zip(&all).map(hull).collect()
        });
    }

    /// Adds an access to an array at an unknown index.
    pub fn see_all(&mut self, array: usize) {
        self.seen.insert(array, None);
    }

    /// Returns the touched part of an array: `None` for nothing, `Some(None)` for all elements, or the touched
    /// indices.
    pub(super) fn seen(&self, array: usize) -> Option<Option<&[Interval]>> {
        self.seen.get(&array).map(Option::as_deref)
    }

    /// Adds a team's copy of an array, with room for `room` elements.
    pub fn copy(&mut self, array: &'static str, len: usize, room: usize) {
        if len > room {
            self.too_long = Some((array, len, room));
        }
    }

    /// Adds an access that cannot conflict with others.
    pub fn within(&mut self, indices: &[Form], extents: &[usize]) {
        let is_inside = |(index, extent): (&Form, &usize)| {
            let inside = |all: Interval| all.is_empty() || all.least >= 0 && all.most < *extent as i128;
            index.all().is_some_and(inside)
        };
        let is_never = indices.iter().any(|index| index.all().is_some_and(Interval::is_empty));
        self.fits &= is_never || indices.iter().zip(extents).all(is_inside);
    }

    /// Adds an access to a written array, within the loop over threads with index `region` and within `level` levels
    /// of shared-out loops.
    pub fn touch<const D: usize>(
        &mut self,
        array: usize,
        (region, level, is_write): (usize, usize, bool),
        indices: &[Form],
        extents: Extents<D>,
    ) {
        self.within(indices, &extents.0);
        if indices.iter().any(|index| index.all().is_some_and(Interval::is_empty)) {
            return;
        }
        let indices = indices.iter().map(|index| index.known).collect();
        // The loop that was added last at a level.
        let last =
            |level: usize| self.shared.iter().rev().find(|shared| shared.0 == level).map(|(_, number, _)| *number);
        let around = (1..level).filter_map(last).collect();
        self.touches[array].push(Touch { region, is_write, around, indices });
    }

    /// Returns the number of trips of the outermost loop.
    pub(super) fn trips(&self) -> i128 {
        self.shared.first().map_or(0, |(.., trips)| *trips)
    }

    /// Returns the maximum number of trips of loops over threads, by depth.
    pub(super) fn thread_trips(&self) -> [i128; 3] {
        std::array::from_fn(|depth| {
            let of = self.shared.iter().filter(|(level, ..)| *level == depth + 1).map(|(.., trips)| *trips);
            of.max().unwrap_or(0)
        })
    }

    pub(super) fn is_too_far(&self) -> bool {
        self.is_too_far
    }

    /// Returns the first array in which two concurrent iterations may touch the same element.
    pub(super) fn conflict(&self) -> Option<usize> {
        (0..self.touches.len()).find(|array| !self.is_apart(*array))
    }

    fn is_apart(&self, array: usize) -> bool {
        let touches = &self.touches[array];
        let indices = |touches: &mut dyn Iterator<Item = &Touch>| {
            touches.map(|touch| touch.indices.clone()).collect::<Option<Vec<_>>>()
        };
        let Some(&(_, outermost, _)) = self.shared.first() else { return true };
        let Some(all) = indices(&mut touches.iter()) else { return false };
        let roles = |role: &dyn Fn(usize) -> Role| (0..self.ranges.len()).map(role).collect::<Vec<_>>();
        let over_teams = roles(&|n| if n == outermost { Role::AtOnce } else { Role::InTurns });
        if !are_apart(&over_teams, &all, &self.ranges) {
            return false;
        }
        let regions = touches.iter().map(|touch| touch.region).max().unwrap_or(0);
        // The team synchronises between loops over threads. So while such a loop runs, no thread writes to an array
        // that the loop only reads.
        let is_written = |region: &usize| touches.iter().any(|touch| touch.region == *region && touch.is_write);
        (1..=regions).filter(is_written).all(|region| {
            let Some(inside) = indices(&mut touches.iter().filter(|touch| touch.region == region)) else {
                return false;
            };
            // The loops over threads that these accesses depend on, and all loops around the writes, even those whose
            // stride happens to be 0 in this launch.
            let is_around = |n: usize| {
                touches.iter().any(|touch| touch.region == region && touch.is_write && touch.around.contains(&n))
            };
            let is_used = |n: usize| {
                is_around(n) || inside.iter().flatten().any(|index| index.multiples.get(n).is_some_and(|m| *m != 0))
            };
            let is_shared = |n: usize| self.shared[1..].iter().any(|(_, shared, _)| *shared == n);
            let over_threads = roles(&|n| match () {
                () if n == outermost => Role::Fixed,
                () if is_shared(n) && is_used(n) => Role::AtOnce,
                () => Role::InTurns,
            });
            are_apart(&over_threads, &inside, &self.ranges)
        })
    }

    /// Returns how an array can be cut between iterations of the outermost loop, or `None` if it cannot be cut.
    pub fn cut(&self, array: usize) -> Option<Cut> {
        let &(_, outermost, _) = self.shared.first()?;
        let accesses = self.touches[array].iter().map(|touch| touch.indices.clone()).collect::<Option<Vec<_>>>()?;
        let Some(first) = accesses.first() else { return Some(Cut { dimension: 0, stride: 0, first: 0 }) };
        (0..first.len()).find_map(|dimension| {
            let of: Vec<&Known> = accesses.iter().map(|access| &access[dimension]).collect();
            let stride = *of[0].multiples.get(outermost)?;
            let is_alike = of.iter().all(|index| index.multiples[outermost] == stride);
            let rest = rest(&[outermost], &of, &self.ranges)?;
            (is_alike && stride > 0 && rest.width() <= stride).then_some(Cut { dimension, stride, first: rest.least })
        })
    }
}
