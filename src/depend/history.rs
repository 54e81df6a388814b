//! The history of one data: who accessed which part last.
//!
//! Two forms with the same meaning. By parts it is exact and has no limit; data of one dimension have it from the
//! start. As a list of the latest accesses it is fast for blocks that cross each other, as long as they are few.

use super::fragment::Fragment;
use super::recent::Recent;
use super::register::Newcomer;
use super::{AccessRecord, Mode};
use crate::region::{Block, Part, RegionMap};

/// The accesses to one data, as far as newcomers may have to wait for them.
pub(super) enum History {
    /// By parts of the data.
    Parts(RegionMap<Fragment>),
    /// As declared.
    Recent(Recent),
}

impl History {
    /// That of a data nobody has accessed.
    pub(super) fn new(whole: Block, ndim: usize) -> Self {
        if Recent::suits(&whole, ndim) {
            return Self::Recent(Recent::default());
        }
        Self::Parts(RegionMap::new(whole, ndim, Fragment::default()))
    }

    /// Enters the `index`-th access of `newcomer`.
    #[inline]
    pub(super) fn enter(&mut self, index: usize, access: &AccessRecord<'_>, newcomer: &mut Newcomer<'_>) {
        match self {
            Self::Parts(parts) => match parts.undivided(access.block) {
                Some(fragment) => fragment.enter(index, &Part::Box(access.block), access.mode, newcomer),
                None => enter_parts(parts, index, access, newcomer),
            },
            Self::Recent(_) => self.enter_recent(index, access, newcomer),
        }
    }

    /// Enters an access into a list; if that has no room for it, the history goes over to parts.
    #[inline(never)] // or else the way of data in one dimension gets longer
    fn enter_recent(&mut self, index: usize, access: &AccessRecord<'_>, newcomer: &mut Newcomer<'_>) {
        let Self::Recent(recent) = self else { return };
        if recent.has_room(access.mode, newcomer) {
            return recent.enter(access.block, access.mode, newcomer);
        }
        let mut parts = recent.to_parts(access.datum.whole(), access.datum.ndim());
        enter_parts(&mut parts, index, access, newcomer);
        *self = Self::Parts(parts);
    }
}

#[inline(never)]
fn enter_parts(parts: &mut RegionMap<Fragment>, index: usize, access: &AccessRecord<'_>, newcomer: &mut Newcomer<'_>) {
    let mut visited = 0;
    parts.visit(access.block, |part, fragment| {
        visited += 1;
        fragment.enter(index, &part, access.mode, newcomer);
    });
    if matches!(access.mode, Mode::Out | Mode::InOut | Mode::Accept) {
        parts.unite_if_many(access.block, visited);
    }
}
