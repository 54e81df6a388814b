//! The Python module: runtimes, data objects of NumPy arrays, and tasks whose bodies are Python callables or compiled
//! functions.
//!
//! The module uses the library's public items for types that are known at run time (`thalweg::dynamic`), and has the
//! same checks, errors and dependences. It never computes with elements.
//!
//! # The interpreter's lock
//! No thread can wait for a task while it holds the interpreter's lock (GIL) that the task's body needs:
//! 1. A call that waits releases the GIL first ([`gil::wait`]), and submissions never wait for a task: the runtime is
//!    built with `throttle_submissions(false)`, and a submitter that finds too many pending tasks waits as in 1.
//! 2. A unit's thread takes the GIL only in a body or in the destructor of a body's captures. The library holds no lock
//!    while it runs these, so a thread that waits for the GIL holds no lock that the GIL's holder could wait for.
//! 3. Wakers, deleters of tensors and destructors elsewhere never take the GIL. They leave references to the list that
//!    the next thread with the GIL empties, and callbacks to a separate thread ([`notify`]).
//! 4. A runtime that ends joins its threads, so its destructor releases the GIL first ([`runtime::Shell`]).
//!
//! `tests/test_gil.py` tries to make threads wait for each other nevertheless.
//!
//! In an interpreter without the lock, threads that are attached must still be able to pause for its garbage collector.
//! The same rules suffice: every wait for a task detaches its thread, and no thread calls Python while it holds a lock
//! of this module. All classes are frozen and keep what changes in locks or atomics.
//!
//! # Stacks
//! Python assumes that the frames of a thread are on one stack. So bodies run only on the units' own threads
//! (`use_current_thread(false)`), and a wait inside a body is refused ([`gil::may_wait`]): the library runs a body on a
//! separate stack only if another body of the thread waits.

mod array;
mod body;
mod compiled;
mod cuda_array;
mod data;
mod device_array;
mod device_body;
mod dlpack;
mod error;
mod gil;
mod group;
mod kernel;
#[path = "../../thalweg-c/src/launch.rs"]
mod launch;
mod notify;
mod place;
mod runtime;
mod statistics;
mod task;
#[path = "../../thalweg-c/src/view.rs"]
#[allow(non_camel_case_types, unreachable_pub, reason = "C's interface exports it, by C's names")]
mod view;

use pyo3::prelude::*;

#[pymodule(gil_used = false)]
mod _thalweg {
    use super::*;

    #[pymodule_export]
    use compiled::Compiled;
    #[pymodule_export]
    use data::{Access, Data};
    #[pymodule_export]
    use device_array::DeviceArray;
    #[pymodule_export]
    use device_body::Stream;
    #[pymodule_export]
    use error::{Error, Refused, TaskError};
    #[pymodule_export]
    use group::{Group, Space};
    #[pymodule_export]
    use kernel::{Kernel, Launch, Nth};
    #[pymodule_export]
    use runtime::{Runtime, end_all};
    #[pymodule_export]
    use statistics::Statistics;
    #[pymodule_export]
    use task::{LoopBuilder, Task, TaskBuilder};
}
