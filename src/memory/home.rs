//! What a data object has at home: the memory that it was registered with, whatever that is made of.
//!
//! A home belongs to its [`DataCell`](super::DataCell) until it is taken out, by the task that gives the data object up.
//! Nothing here is looked at by bodies: their views are made from addresses.

use super::adopted::{DeviceArray, ForeignArray};
use super::shared_pages::Part;
use super::{Element, HostBuffer, Reserved, Unified};
use std::any::Any;
use std::fmt;
use std::ptr::NonNull;

/// The memory behind a data object.
#[derive(Debug)]
pub(crate) enum Home {
    /// An array's elements.
    Array(HostBuffer),
    /// Those of an array beside others.
    Together(Part),
    /// Addresses, behind which there is memory only where it was touched.
    Reserved(Reserved),
    /// Those of an array that another library has made.
    Foreign(ForeignArray),
    /// Addresses alike, of a data object that lies in a device's memory that another library has made.
    Adopted(DeviceArray),
    /// What devices use as well, where it lies.
    Unified(Unified),
    /// A value of any type, with its destructor.
    Value(BoxedValue),
}

impl Home {
    /// The elements of an array.
    ///
    /// # Panics
    /// If it is not one of elements of this type.
    pub(crate) fn into_vec<T: Element>(self) -> Vec<T> {
        match self {
            Self::Array(buffer) => buffer.into_vec(),
            Self::Together(part) => part.into_vec(),
            Self::Foreign(array) => array.into_vec(),
            Self::Reserved(reserved) => reserved.into_vec(),
            Self::Adopted(array) => array.into_vec(),
            Self::Unified(unified) => unified.into_vec(),
            Self::Value(_) => unreachable!("the home of a value is no array"),
        }
    }

    /// The value.
    ///
    /// # Panics
    /// If it is not one of this type.
    pub(crate) fn into_value<T: 'static>(self) -> T {
        match self {
            Self::Value(value) => value.into_inner(),
            _ => unreachable!("the home of an array is no value"),
        }
    }
}

/// A box without the type of what is in it. Views are made from its address; nobody borrows it meanwhile.
///
/// Invariant: the pointer is a leaked box's, and owned.
pub(crate) struct BoxedValue(NonNull<dyn Any + Send + Sync>);

// SAFETY: owned, as a box is, and what is in it is `Send`.
unsafe impl Send for BoxedValue {}

impl BoxedValue {
    pub(crate) fn new<T: Send + Sync + 'static>(value: T) -> Self {
        Self(NonNull::from(Box::leak(Box::new(value))))
    }

    /// Where the value is.
    pub(super) fn address(&self) -> *mut u8 {
        self.0.as_ptr().cast()
    }

    fn into_inner<T: 'static>(self) -> T {
        let this = std::mem::ManuallyDrop::new(self);
        // SAFETY: by the type's invariant, and it is given up here once: the destructor does not run.
        let value: Box<dyn Any> = unsafe { Box::from_raw(this.0.as_ptr()) };
        *value.downcast().expect("a value has the type of its handle")
    }
}

impl Drop for BoxedValue {
    fn drop(&mut self) {
        // SAFETY: by the type's invariant; it is not used after.
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
    fn a_value_comes_back_or_is_dropped_once() {
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
    fn a_value_knows_its_type() {
        BoxedValue::new(1u64).into_inner::<i64>();
    }
}
