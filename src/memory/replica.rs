//! Private replicas of reductions, and the reuse of their memory.
//!
//! A task that reduces a large region needs the same amount of private memory, filled with the operation's identity,
//! from the start of its body until its contribution has been combined. Fresh pages for every task would cost more than
//! many bodies do. So as long as a data object has uncombined reductions, each reduction passes its memory on to the
//! next; the last one frees the memory.
//!
//! Invariants:
//! 1. Every uncombined reduction holds its data object's [`Spares`]; the data object itself does not.
//! 2. There is at most one more spare than there are replicas in use. Hence replicas take at most twice the memory that
//!    the tasks need at once.
//! 3. Under the locks of this module, vectors of plain bytes are only moved; none is allocated, filled or freed.

use super::Element;
use parking_lot::Mutex;
use std::any::Any;
use std::sync::{Arc, Weak};

/// The size in bytes from which reuse is faster than the allocator.
const LEAST_BYTES: usize = 16 << 10;

/// The spares of one data object, alive as long as a reduction holds them.
#[derive(Debug, Default)]
pub(super) struct SparesOf(Mutex<Option<Weak<dyn Any + Send + Sync>>>);

impl SparesOf {
    fn get<T: Element>(&self) -> Arc<Spares<T>> {
        let mut spares = self.0.lock();
        let present = spares.as_ref().and_then(Weak::upgrade).and_then(|present| present.downcast::<Spares<T>>().ok());
        present.unwrap_or_else(|| {
            let new = Arc::new(Spares::default());
            *spares = Some(Arc::downgrade(&(new.clone() as Arc<dyn Any + Send + Sync>)));
            new
        })
    }
}

/// Memory of replicas that have been combined, to be reused by later replicas.
#[derive(Debug)]
struct Spares<T>(Mutex<Kept<T>>);

#[derive(Debug)]
struct Kept<T> {
    spare: Vec<Vec<T>>,
    in_use: usize,
}

impl<T> Default for Spares<T> {
    fn default() -> Self {
        Self(Mutex::new(Kept { spare: Vec::new(), in_use: 0 }))
    }
}

impl<T: Element> Spares<T> {
    fn take(&self, len: usize, identity: T) -> Vec<T> {
        let spare = {
            let mut kept = self.0.lock();
            kept.in_use += 1;
            let fitting = kept.spare.iter().rposition(|spare| spare.len() == len);
            fitting.map(|index| kept.spare.remove(index))
        };
        match spare {
            Some(mut spare) => {
                spare.fill(identity);
                spare
            }
            None => vec![identity; len],
        }
    }

    /// Takes a replica back, and returns the spares that are no longer needed.
    fn give_back(&self, replica: Vec<T>) -> Vec<Vec<T>> {
        let mut kept = self.0.lock();
        kept.in_use -= 1;
        // Keep the most recent ones: they are probably still in the cache, and of the length that the next task
        // needs.
        let surplus = kept.spare.len().saturating_sub(kept.in_use);
        let surplus = kept.spare.drain(..surplus).collect();
        kept.spare.push(replica);
        surplus
    }
}

/// The private replica of one reduction: empty before the body begins, and again after it has been combined.
#[derive(Debug)]
pub(super) struct Replica<T> {
    elements: Vec<T>,
    len: usize,
    spares: Option<Arc<Spares<T>>>,
}

impl<T: Element> Replica<T> {
    /// Makes a replica of `len` elements that begins later, for a data object with these spares.
    pub(super) fn for_later(spares: Option<&SparesOf>, len: usize) -> Self {
        let spares = spares.filter(|_| len.saturating_mul(size_of::<T>()) >= LEAST_BYTES);
        Self { elements: Vec::new(), len, spares: spares.map(SparesOf::get) }
    }

    /// Allocates the memory, with each element set to `identity`.
    pub(super) fn begin(&mut self, identity: T) -> &mut [T] {
        self.elements = match &self.spares {
            Some(spares) if self.elements.is_empty() => spares.take(self.len, identity),
            _ => vec![identity; self.len],
        };
        &mut self.elements
    }

    /// Returns the elements that the body has left; empty if the replica has not begun.
    pub(super) fn elements(&self) -> &[T] {
        &self.elements
    }

    /// Like [`Self::elements`], but mutable.
    pub(super) fn elements_mut(&mut self) -> &mut [T] {
        &mut self.elements
    }

    /// Releases the memory.
    pub(super) fn retire(&mut self) {
        let elements = std::mem::take(&mut self.elements);
        if let Some(spares) = self.spares.take()
            && !elements.is_empty()
        {
            drop(spares.give_back(elements));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEN: usize = LEAST_BYTES / 8;

    #[test]
    fn memory_is_reused_with_identity_and_freed_after_last_reduction() {
        let spares_of = SparesOf::default();
        let [mut first, mut second, mut third] = [(); 3].map(|()| Replica::<u64>::for_later(Some(&spares_of), LEN));
        first.begin(1).fill(5);
        let address = first.elements().as_ptr();
        first.retire();
        assert!(first.elements().is_empty());
        assert_eq!(second.begin(7), [7; LEN]);
        assert_eq!(second.elements().as_ptr(), address);
        second.retire();
        let spares = Arc::downgrade(third.spares.as_ref().unwrap());
        third.retire(); // like that of a skipped task
        assert!(spares.upgrade().is_none());
    }

    #[test]
    fn spares_outnumber_replicas_in_use_by_at_most_one() {
        let spares_of = SparesOf::default();
        let mut replicas: Vec<_> = (0..40).map(|_| Replica::<u64>::for_later(Some(&spares_of), LEN)).collect();
        let last = Replica::<u64>::for_later(Some(&spares_of), LEN);
        for replica in &mut replicas {
            replica.begin(0);
        }
        for replica in &mut replicas {
            replica.retire();
            let kept = last.spares.as_ref().unwrap().0.lock();
            assert!(kept.spare.len() <= kept.in_use + 1, "{} of {}", kept.spare.len(), kept.in_use);
        }
    }

    #[test]
    fn small_replicas_and_other_lengths_are_allocated_separately() {
        let spares_of = SparesOf::default();
        assert!(Replica::<u64>::for_later(Some(&spares_of), LEN - 1).spares.is_none());
        let [mut short, mut long] = [LEN, 2 * LEN].map(|len| Replica::<u64>::for_later(Some(&spares_of), len));
        short.begin(1);
        short.retire();
        assert_eq!(long.begin(2), [2; 2 * LEN]);
    }
}
