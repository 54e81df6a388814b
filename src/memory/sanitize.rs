//! The access sanitizer: runs a body on guarded copies of its regions, and compares them with what its task declared.
//!
//! A body under the sanitizer gets each region in separate memory ([`GuardedCopy`]). The copy of an output has no
//! content yet. After a body has succeeded, the sanitizer looks at guard zones, inputs and outputs; a finding fails the
//! task like an error of the body. Only then does the content of the copies return to the regions.
//!
//! What it cannot see: accesses to data objects that the task does not declare, and accesses further away than a guard
//! zone; an `inout` that is never written; integers computed from unwritten memory; single unwritten elements of less
//! than four bytes; an output that happens to get the content that marks unwritten memory (one number in 2³², or 2⁶⁴
//! for eight bytes). Reductions, `concurrent` accesses, values, and regions that bodies lend out have no copies.
//!
//! This module never schedules anything, and costs nothing unless a runtime calls it.

use super::guarded_copy::{Found, GuardedCopy};
use super::pattern::Pattern;
use crate::depend::{AccessRecord, Body, Datum, Env, Mode, Site, Stop};
use crate::error::{AccessFault, AccessFaults, Breach};
use crate::region::{Block, MAX_DIMS};

/// The result of [`Body::run`], with panics caught.
type Ran = std::thread::Result<Result<(), Box<Stop>>>;

/// The copy of one region.
struct Guard {
    access: usize,
    copy: GuardedCopy,
    original: Site,
    /// A hash of the original if the body may write the region.
    hash: u64,
}

/// Whether the sanitizer copies regions with this mode.
pub(crate) fn is_copied(mode: Mode) -> bool {
    matches!(mode, Mode::In | Mode::Outcome) || is_changed(mode)
}

/// Whether a task may change a region that it accesses by itself in this mode.
pub(crate) fn is_changed(mode: Mode) -> bool {
    matches!(mode, Mode::Out | Mode::Inout | Mode::Commutative)
}

/// Calls `call` in an environment where each region is a guarded copy, which must run the body there. Returns its
/// result, or the findings as an error of the body.
pub(crate) fn run_on_copies(body: &dyn Body, env: &Env<'_>, call: impl FnOnce(&Env<'_>) -> Ran) -> Ran {
    let (mut guards, mut sites) = (Vec::new(), Vec::new());
    body.accesses(&mut |AccessRecord { datum, block, mode }| {
        let access = sites.len();
        let given = env.sites.and_then(|sites| sites[access]);
        let home = if is_copied(mode) && !body.has_begun() { body.home(access) } else { None };
        let guard = home.and_then(|home| {
            let original = given.unwrap_or(home);
            let mut copy = GuardedCopy::new(block.extents(), original.strides, datum.element_bytes)?;
            if mode == Mode::Out {
                copy.mark_unwritten();
            }
            // SAFETY: the engine runs a body once its dependences are satisfied, so until the body ends, the region is
            // at its site in `env` or in its host copy, and no other task writes it.
            let hash = unsafe {
                if mode != Mode::Out {
                    copy.fill(original);
                }
                if is_changed(mode) { copy.hash(original) } else { 0 }
            };
            Some(Guard { access, copy, original, hash })
        });
        guards.extend(guard);
        sites.push(given);
    });
    if guards.is_empty() {
        return call(env);
    }
    for guard in &mut guards {
        sites[guard.access] = Some(guard.copy.site());
    }
    let ran = call(&Env { context: env.context, sites: Some(&sites) });
    let succeeded = matches!(ran, Ok(Ok(())));
    let (mut faults, mut access, mut ended) = (Vec::new(), 0, guards.into_iter().peekable());
    body.accesses(&mut |record| {
        if let Some(Guard { copy, original, hash, .. }) = ended.next_if(|guard| guard.access == access) {
            let find = Finding { access, record };
            // SAFETY: as above; the body has ended, and its task has not, so the region is still the task's.
            unsafe {
                if succeeded {
                    find.all(&copy, original, &mut faults);
                    if is_changed(record.mode) && copy.hash(original) != hash {
                        let found = copy.changed(original).unwrap_or(Found { first: [0; MAX_DIMS], count: 1 });
                        faults.push(find.fault(Breach::WroteElsewhere, &found));
                    }
                }
                if is_changed(record.mode) {
                    copy.write_back(original);
                }
            }
        }
        access += 1;
    });
    if faults.is_empty() { ran } else { Ok(Err(Box::new(Stop::Failed(Box::new(AccessFaults(faults)))))) }
}

/// The findings in one access of a task.
pub(crate) struct Finding<'a> {
    pub(crate) access: usize,
    pub(crate) record: AccessRecord<'a>,
}

impl Finding<'_> {
    /// Adds all findings in a copy that a body has used. The original has the content from before the body.
    ///
    /// # Safety
    /// The original is at its site with the extents of the region, and nothing writes it.
    pub(crate) unsafe fn all(&self, copy: &GuardedCopy, original: Site, faults: &mut Vec<AccessFault>) {
        if let Some(damage) = copy.damage() {
            let first = copy.describe(damage.first);
            faults.push(AccessFault {
                first,
                count: damage.count,
                ..self.fault(Breach::WroteOutside, &Found::default())
            });
        }
        let mode = self.record.mode;
        if !is_changed(mode) {
            // SAFETY: the caller upholds the same contract.
            let changed = unsafe { copy.changed(original) };
            faults.extend(changed.map(|found| self.fault(Breach::ChangedInput, &found)));
            return;
        }
        let unwritten = if mode == Mode::Out { Breach::LeftUnwritten } else { Breach::ReadUnwritten };
        for (pattern, breach) in [(Pattern::Unwritten, unwritten), (Pattern::Outside, Breach::ReadOutside)] {
            faults.extend(copy.holding(pattern).map(|found| self.fault(breach, &found)));
        }
    }

    fn fault(&self, breach: Breach, found: &Found) -> AccessFault {
        let Self { access, record: AccessRecord { datum, block, mode } } = self;
        let declared = format!("`{mode}` {} of {datum}", datum.describe(block));
        AccessFault { access: *access, declared, breach, first: index(datum, block, found), count: found.count }
    }
}

/// Describes an index of a region as an index of its data object.
fn index(datum: &Datum, block: &Block, found: &Found) -> String {
    let index: Vec<usize> = (0..datum.ndim()).map(|d| block.lo()[d] + found.first[d]).collect();
    format!("{index:?}")
}
