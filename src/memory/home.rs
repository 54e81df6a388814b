//! Homes of data objects, which are the host memory of any kind that the objects were registered with.
//!
//! A home belongs to its [`DataCell`](super::DataCell) until the task that releases the data object takes it out.
//! Bodies never access a home through this type: their views are made from addresses.
//!
//! The destructor of a value runs once: in the task that releases it, or in the caller that takes the value.

use super::adopted::{DeviceArray, ForeignArray};
use super::shared_pages::Part;
use super::{Element, HostBuffer, Reserved, Unified};
use std::any::Any;
use std::fmt;
use std::ptr::NonNull;

/// The memory of a data object.
#[derive(Debug)]
pub(crate) enum Home {
    /// An array's elements.
    Array(HostBuffer),
    /// An array's elements, in a piece of memory that several arrays share.
    Together(Part),
    /// Reserved addresses, which get memory only where they are touched.
    Reserved(Reserved),
    /// An array that another library has allocated.
    Foreign(ForeignArray),
    /// Reserved addresses for a data object in device memory that another library has allocated.
    Adopted(DeviceArray),
    /// Memory that devices access in place.
    Unified(Unified),
    /// A value of any type, with its destructor.
    Value(BoxedValue),
}

impl Home {
    /// Converts the home into the elements of an array.
    ///
    /// # Panics
    /// Panics if the home is not an array of elements of this type.
    pub(crate) fn into_vec<T: Element>(self) -> Vec<T> {
        match self {
            Self::Array(buffer) => buffer.into_vec(),
            Self::Together(part) => part.into_vec(),
            Self::Foreign(array) => array.into_vec(),
            Self::Reserved(reserved) => reserved.into_vec(),
            Self::Adopted(array) => array.into_vec(),
            Self::Unified(unified) => unified.into_vec(),
            Self::Value(_) => unreachable!("the home of a value is not an array"),
        }
    }

    /// Converts the home into its value.
    ///
    /// # Panics
    /// Panics if the home is not a value of this type.
    pub(crate) fn into_value<T: 'static>(self) -> T {
        match self {
            Self::Value(value) => value.into_inner(),
            _ => unreachable!("the home of an array is not a value"),
        }
    }
}

/// A type-erased box. Views are made from its address, and nothing borrows the box while they exist.
///
/// Invariant: the pointer comes from a leaked box, which this value owns.
pub(crate) struct BoxedValue(NonNull<dyn Any + Send + Sync>);

// SAFETY: the value is owned, as in a box, and is `Send`, so it may move to another thread.
unsafe impl Send for BoxedValue {}

impl BoxedValue {
    pub(crate) fn new<T: Send + Sync + 'static>(value: T) -> Self {
        Self(NonNull::from(Box::leak(Box::new(value))))
    }

    /// Returns the address of the value.
    pub(super) fn address(&self) -> *mut u8 {
        self.0.as_ptr().cast()
    }

    fn into_inner<T: 'static>(self) -> T {
        let this = std::mem::ManuallyDrop::new(self);
        // SAFETY: by the type's invariant, the pointer comes from a leaked box, and the box is given up only here
        // because the destructor does not run.
        let value: Box<dyn Any> = unsafe { Box::from_raw(this.0.as_ptr()) };
        *value.downcast().expect("a value has the type of its handle")
    }
}

impl Drop for BoxedValue {
    fn drop(&mut self) {
        // SAFETY: by the type's invariant, the pointer comes from a leaked box, which is not used afterwards.
        drop(unsafe { Box::from_raw(self.0.as_ptr()) });
    }
}

impl fmt::Debug for BoxedValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("BoxedValue(..)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    #[test]
    fn value_is_returned_or_dropped_once() {
        let value = Arc::new(vec![1, 2]);
        let home = Home::Value(BoxedValue::new(value.clone()));
        assert_eq!(Arc::strong_count(&value), 2);
        assert_eq!(*home.into_value::<Arc<Vec<i32>>>(), [1, 2]);
        assert_eq!(Arc::strong_count(&value), 1);
        drop(Home::Value(BoxedValue::new(value.clone())));
        assert_eq!(Arc::strong_count(&value), 1);
        BoxedValue::new(()).into_inner::<()>();
    }

    #[test]
    #[should_panic(expected = "the type of its handle")]
    fn into_inner_of_other_type_panics() {
        BoxedValue::new(1u64).into_inner::<i64>();
    }
}
