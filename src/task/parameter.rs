//! Parameters of recordings, and accesses to them.

use super::access::UntypedAccess;
use super::accesses::{Accesses, AnyParameter};
use super::each::LoopAccesses;
use super::handle::Kept;
use crate::error::SubmitError;
use crate::memory::{ReadParameter, Setting};
use crate::region::Block;
use crate::sealed::{Internal, Sealed};
use std::fmt;
use std::slice::IterMut;
use std::sync::Arc;

/// A value that the tasks of a recording read and that the program may change between replays.
///
/// Made by [`Recorder::parameter`](crate::Recorder::parameter), changed by [`Recording::set`](crate::Recording::set).
///
/// ```
/// use thalweg::prelude::*;
/// let rt = Runtime::builder().compute_units("1:CPU:1").build()?;
/// let x = rt.data(vec![1.0; 100]);
/// let mut factor = None;
/// let mut step = rt.record(|r| {
///     let by = factor.insert(r.parameter("by", 2.0));
///     r.task("scale", (by.input(), x.inout()))
///         .cpu(|_, (by, x)| x.iter_mut().for_each(|x| *x *= by))
///         .submit()
/// })?;
/// step.replay()?;
/// step.set(&factor.unwrap(), 5.0)?;
/// step.replay()?;
/// assert_eq!(rt.take(x)?, [10.0; 100]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Parameter<T> {
    pub(crate) setting: Arc<Setting<T>>,
}

/// A parameter that a recorded task reads, made by [`Parameter::input`]. Bodies get `&T`, including bodies for
/// accelerators.
///
/// ```
/// use thalweg::prelude::*;
/// use thalweg::task::ParameterInput;
/// let rt = Runtime::builder().compute_units("1:CPU:1").build()?;
/// rt.record(|r| {
///     let n = r.parameter("n", 3usize);
///     let access: ParameterInput<'_, usize> = n.input();
///     r.task("print", access).cpu(|_, n| println!("{n}")).submit()
/// })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct ParameterInput<'p, T>(&'p Parameter<T>);

impl<T: Send + Sync + 'static> Parameter<T> {
    pub(crate) fn new(name: &str, recording: u64, value: T) -> Self {
        Self { setting: Arc::new(Setting::new(name, recording, value)) }
    }

    /// Returns an access that reads the parameter. In a recording, a task reads the value given to each replay; any
    /// other task reads the current value.
    pub fn input(&self) -> ParameterInput<'_, T> {
        ParameterInput(self)
    }
}

impl<T> Clone for Parameter<T> {
    fn clone(&self) -> Self {
        Self { setting: self.setting.clone() }
    }
}

impl<T: Send + Sync + 'static> fmt::Debug for Parameter<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        use crate::memory::AnySetting;
        write!(f, "Parameter({})", self.setting.name())
    }
}

impl<T> Clone for ParameterInput<'_, T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for ParameterInput<'_, T> {}

impl<T: Send + Sync + 'static> fmt::Debug for ParameterInput<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.0, f)
    }
}

impl<T> Sealed for ParameterInput<'_, T> {}

impl<T: Send + Sync + 'static> Accesses for ParameterInput<'_, T> {
    type Stored = ReadParameter<T>;

    const COUNT: Option<usize> = Some(0);

    fn check(&self, _: u64) -> Result<(), SubmitError> {
        Ok(())
    }

    #[inline]
    fn visit<'a>(&'a self, _: &mut dyn FnMut(UntypedAccess<'a>)) {}

    fn store(&self, _: Internal) -> ReadParameter<T> {
        ReadParameter::once(&self.0.setting)
    }

    fn kept(&self, _: &mut dyn FnMut(Kept)) {}

    fn parameters(&self, visit: &mut dyn FnMut(AnyParameter<'_>)) {
        visit(AnyParameter(&*self.0.setting));
    }
}

impl<T: Send + Sync + 'static> LoopAccesses for ParameterInput<'_, T> {
    type Stored = ReadParameter<T>;
    type One<'l>
        = ParameterInput<'l, T>
    where
        Self: 'l;

    fn check(&self, _: u64) -> Result<(), SubmitError> {
        Ok(())
    }

    fn lengths(&self, _: &mut dyn FnMut(usize, &dyn Fn() -> String)) {}

    fn are_entered_alone(&self) -> bool {
        false
    }

    fn one(&self, _: usize) -> ParameterInput<'_, T> {
        *self
    }

    fn place(&self, _: usize, _: &mut IterMut<'_, Block>) {}
}
