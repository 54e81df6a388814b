//! Variants of one kernel, each compiled for a different launch shape.

use super::shape::Shape;
use crate::kernel::{Kernel, Parameters, Program};
use std::collections::HashMap;
use std::fmt;
use std::sync::{Mutex, OnceLock, PoisonError};

/// The parameters that distinguish variants: the team's size, which loops are replaced by `if`s, and whether indices
/// are checked.
type Key = ([u32; 3], [bool; 4], bool);

/// A kernel of a program, in all launch shapes.
pub struct Variants<P: 'static> {
    program: &'static Program,
    name: &'static str,
    /// Each variant is compiled once and kept forever, which is acceptable because there are only a limited number of
    /// shapes.
    made: OnceLock<Mutex<HashMap<Key, &'static Kernel<P>>>>,
}

impl<P: 'static> fmt::Debug for Variants<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Variants").field("name", &self.name).finish_non_exhaustive()
    }
}

impl<P: Parameters> Variants<P> {
    /// Creates the variants of the kernel `name` of a program.
    ///
    /// # Panics
    /// Panics under the same conditions as [`Kernel::new`].
    #[track_caller]
    pub const fn new(program: &'static Program, name: &'static str) -> Self {
        let any = program.define("TEAM_X", 1).define("TEAM_Y", 1).define("TEAM_Z", 1);
        let _: Kernel<P> = Kernel::new(&any, name);
        Self { program, name, made: OnceLock::new() }
    }

    /// Returns the kernel variant for this shape.
    pub fn of(&self, shape: &Shape) -> &'static Kernel<P> {
        let key = (shape.team, shape.once, shape.checked);
        let made = self.made.get_or_init(Mutex::default);
        let mut made = made.lock().unwrap_or_else(PoisonError::into_inner);
        made.entry(key).or_insert_with(|| Box::leak(Box::new(self.make(shape))))
    }

    fn make(&self, shape: &Shape) -> Kernel<P> {
        let Shape { team, once, checked, .. } = shape;
        let mut program = *self.program;
        for (name, value) in [("TEAM_X", team[0]), ("TEAM_Y", team[1]), ("TEAM_Z", team[2])] {
            program = program.define(name, value.into());
        }
        for (name, value) in ["ONCE_TEAMS", "ONCE_X", "ONCE_Y", "ONCE_Z"].into_iter().zip(once) {
            program = program.define(name, i64::from(*value));
        }
        Kernel::new(&program.define("CHECKED", i64::from(*checked)), self.name)
    }
}
