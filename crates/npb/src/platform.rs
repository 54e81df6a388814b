//! Platforms, on which whole programs run: a single runtime, or the ranks of a cluster.
//!
//! A program makes its data in the runtime of its process, says which zone each belongs to, and submits its tasks
//! through [`Front`]. It never asks where a zone is.

use thalweg::Runtime;
use thalweg::ndarray::Array4;

use crate::Result;
use crate::front::Front;
use crate::mz::program::Field;

/// A destination for tasks that also waits for them and returns values.
pub trait Platform: Front {
    /// Returns the runtime of this process.
    fn runtime(&self) -> &Runtime;

    /// Returns the runtime if it is the whole platform, which recordings and plain loops need.
    fn single(&self) -> Option<&Runtime>;

    /// Declares that a field belongs to a zone, before any task uses it.
    fn own(&self, field: &Field, zone: usize);

    /// Waits for all tasks.
    ///
    /// # Errors
    /// Returns the failures of tasks since the last wait.
    fn wait(&self) -> Result<()>;

    /// Waits for a field's value and returns it.
    ///
    /// # Errors
    /// Returns an error if the value is missing because a task has failed.
    fn read(&self, field: &Field) -> Result<Array4<f64>>;
}

impl Platform for Runtime {
    fn runtime(&self) -> &Runtime {
        self
    }

    fn single(&self) -> Option<&Runtime> {
        Some(self)
    }

    fn own(&self, _: &Field, _: usize) {}

    fn wait(&self) -> Result<()> {
        Ok(Runtime::wait(self)?)
    }

    fn read(&self, field: &Field) -> Result<Array4<f64>> {
        Ok(Runtime::read(self, field)?)
    }
}
