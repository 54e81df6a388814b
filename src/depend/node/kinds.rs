//! Sets of the kinds of unit that a task can run on.

use crate::machine::UnitKind;

/// The kinds of unit that a task has bodies for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Kinds(u8);

impl Kinds {
    /// No kind.
    pub(crate) const NONE: Self = Self(0);

    /// Kinds of unit that can run a body for CPU units.
    pub(crate) const CPU: Self = Self::NONE.with(UnitKind::Cpu);
    /// Kinds of unit that can run a body for emulated devices.
    pub(crate) const EMULATED: Self = Self::NONE.with(UnitKind::Emulated);
    /// Kinds of unit that can run a body for accelerators.
    pub(crate) const ACCELERATED: Self = {
        let (mut kinds, mut next) = (Self::NONE, 0);
        while next < UnitKind::ALL.len() {
            kinds = kinds.with(UnitKind::ALL[next]);
            next += 1;
        }
        Self(kinds.0 & !Self::CPU.0 & !Self::EMULATED.0)
    };

    /// Returns the union of both sets.
    pub(crate) const fn and(self, others: Self) -> Self {
        Self(self.0 | others.0)
    }

    /// Returns the set with one more kind.
    pub(crate) const fn with(self, kind: UnitKind) -> Self {
        Self(self.0 | 1 << kind as u8)
    }

    /// Whether there is a body for units of this kind.
    pub(crate) fn has(self, kind: UnitKind) -> bool {
        self.0 & 1 << kind as u8 != 0
    }

    /// Whether the sets have a kind in common.
    pub(crate) fn meets(self, others: Self) -> bool {
        self.0 & others.0 != 0
    }

    /// Whether all of these kinds are in `others`.
    pub(crate) fn are_among(self, others: Self) -> bool {
        self.0 & !others.0 == 0
    }

    /// Describes the kinds for messages.
    pub(crate) fn describe(self) -> String {
        let kinds = UnitKind::ALL.into_iter().filter(|kind| self.has(*kind)).map(UnitKind::keyword);
        match kinds.collect::<Vec<_>>() {
            none if none.is_empty() => "no kind".to_owned(),
            some => some.join(" and "),
        }
    }
}
