//! How many teams of how many threads a kernel is launched with.
//!
//! As MACC chooses: a team for each iteration of the loop over teams, a thread for each of the loops over threads, as far as
//! the limits allow; what is more is dealt out in turns. Threads along a dimension are a power of two, so that there are few
//! different texts to compile; where their product exceeds the limit, the largest dimension is halved.
//!
//! What follows from the trips alone is computed here, and nothing else: that both bodies of a reduction agree needs that.

use super::nest::Nest;
use crate::error::DeviceError;
use crate::kernel::Launcher;

/// A team's memory on every device.
pub const MOST_TEAM_BYTES: usize = 48 << 10;

/// Teams of one launch at most: threads are counted by `int`.
const MOST_THREADS: i128 = 1 << 30;

/// What the attribute says of a kernel.
#[derive(Debug)]
pub struct Launch {
    pub function: &'static str,
    /// The arrays that are written.
    pub arrays: &'static [&'static str],
    pub teams: Option<u32>,
    pub thread_limit: u32,
    /// Iterations that a team takes together.
    pub chunk: Option<usize>,
    /// Loops over threads in each other, below the outermost loop.
    pub depth: usize,
    /// The outermost loop is shared out over threads as well.
    pub is_combined: bool,
    pub is_reduced: bool,
    /// Loops become `if`s where one iteration is all that a thread gets.
    pub once: bool,
    pub innermost_first: bool,
    pub team_bytes: usize,
}

/// See the module.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Shape {
    pub(super) team: [u32; 3],
    pub(super) teams: usize,
    /// For the loop over teams, and those over threads along each dimension.
    pub(super) once: [bool; 4],
    pub(super) checked: bool,
    /// What teams leave of a reduction.
    pub parts: usize,
}

impl Shape {
    /// One team of so many threads.
    pub fn of_one_team(threads: u32) -> Self {
        Self { team: [threads, 1, 1], teams: 1, once: [false; 4], checked: false, parts: 0 }
    }

    /// How many threads that are in all.
    pub fn threads(&self) -> [usize; 3] {
        [self.teams * self.team[0] as usize, self.team[1] as usize, self.team[2] as usize]
    }

    /// For an outermost loop of so many trips, and loops over threads of at most so many.
    pub(super) fn new(launch: &Launch, trips: i128, inner: [i128; 3], checked: bool) -> Self {
        let power = |n: i128| n.clamp(1, 1024).cast_unsigned().next_power_of_two() as u32;
        let mut team = [1; 3];
        let dimension = |depth: usize| if launch.innermost_first { launch.depth - 1 - depth } else { depth };
        let lanes = 1 << launch.thread_limit.ilog2();
        if launch.is_reduced {
            team[0] = lanes;
        } else if launch.is_combined {
            team[0] = lanes.min(power(launch.chunk.map_or(trips, |chunk| chunk as i128)));
        } else {
            (0..launch.depth).for_each(|depth| team[dimension(depth)] = power(inner[depth]));
            while team.iter().product::<u32>() > launch.thread_limit {
                let largest = *team.iter().max().unwrap_or(&1);
                // Of equals the outer one: neighbouring threads stay together.
                let d = (0..3).rev().find(|d| team[*d] == largest).unwrap_or(0);
                team[d] /= 2;
            }
        }
        let per_team =
            launch.chunk.map_or(if launch.is_combined { i128::from(team[0]) } else { 1 }, |chunk| chunk as i128);
        let needed = (trips + per_team - 1) / per_team;
        let most = launch.teams.map_or(i128::MAX, i128::from).min(MOST_THREADS / i128::from(team[0]));
        let teams = needed.min(most);
        let once = |trips: i128, there: i128| launch.once && trips <= there;
        let mut all_once = [once(needed, teams), false, false, false];
        for depth in 0..launch.depth {
            all_once[1 + dimension(depth)] = once(inner[depth], i128::from(team[dimension(depth)]));
        }
        let parts = if launch.chunk.is_some() { needed } else { trips };
        Self { team, teams: teams as usize, once: all_once, checked, parts: parts as usize }
    }
}

impl Nest {
    /// How the nest is launched; not at all if there is nothing to do.
    ///
    /// # Errors
    /// If iterations disturb each other, if a team's copy of an array is too short, or if the device lacks the threads or
    /// the memory for a team.
    pub fn shape(&self, launch: &Launch, launcher: &Launcher<'_>) -> Result<Option<Shape>, DeviceError> {
        let kernel = || launch.function.to_owned();
        if self.trips() == 0 {
            return Ok(None);
        }
        if let Some((array, len, room)) = self.too_long {
            let what = format!("elements in a team's copy of `{array}`");
            return Err(DeviceError::Limit { kernel: kernel(), what, limit: room as u64, requested: len as u64 });
        }
        if let Some(array) = self.conflict() {
            let array = launch.arrays.get(array).copied().unwrap_or_default().to_owned();
            return Err(DeviceError::Conflict { kernel: kernel(), array });
        }
        if self.is_too_far() {
            let (what, limit) = ("iterations' numbers".to_owned(), 1 << 62);
            return Err(DeviceError::Limit { kernel: kernel(), what, limit, requested: u64::MAX });
        }
        let shape = Shape::new(launch, self.trips(), self.thread_trips(), !self.fits);
        let limits = launcher.limits();
        let threads = u64::from(shape.team.iter().product::<u32>());
        let requests = [
            ("threads in a team", limits.threads_per_group, threads),
            ("bytes of a team's memory", limits.local_bytes, launch.team_bytes as u64),
        ];
        for (what, limit, requested) in requests {
            if requested > limit {
                return Err(DeviceError::Limit { kernel: kernel(), what: what.to_owned(), limit, requested });
            }
        }
        Ok(Some(shape))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NEST: Launch = Launch {
        function: "nest",
        arrays: &[],
        teams: None,
        thread_limit: 1024,
        chunk: None,
        depth: 2,
        is_combined: false,
        is_reduced: false,
        once: true,
        innermost_first: true,
        team_bytes: 0,
    };

    /// 48 x 64 x 32, of which a team of 64 x 32 would have more threads than there can be.
    #[test]
    fn a_team_that_is_too_large_takes_turns() {
        let shape = Shape::new(&NEST, 48, [64, 32, 0], false);
        assert_eq!((shape.teams, shape.team), (48, [32, 32, 1]));
        assert_eq!(shape.once, [true, true, false, false], "two rounds along the first of the loops");
        let small = Shape::new(&Launch { thread_limit: 256, teams: Some(32), ..NEST }, 48, [64, 32, 0], false);
        assert_eq!((small.teams, small.team, small.once), (32, [16, 16, 1], [false; 4]));
    }

    #[test]
    fn the_first_dimension_goes_to_the_loop_that_is_asked_for() {
        let of = |innermost_first| Shape::new(&Launch { innermost_first, ..NEST }, 5, [4, 20, 0], false).team;
        assert_eq!((of(true), of(false)), ([32, 4, 1], [4, 32, 1]));
    }

    #[test]
    fn a_combined_loop_has_a_thread_per_iteration() {
        let launch = Launch { depth: 0, is_combined: true, thread_limit: 256, ..NEST };
        let shape = Shape::new(&launch, 1000, [0; 3], false);
        assert_eq!((shape.teams, shape.threads(), shape.once[0]), (4, [1024, 1, 1], true));
        let few = Shape::new(&Launch { teams: Some(3), ..launch }, 1000, [0; 3], false);
        assert_eq!((few.teams, few.once[0]), (3, false));
        let huge = Shape::new(&Launch { depth: 0, is_combined: true, ..NEST }, 1 << 40, [0; 3], false);
        assert!(i32::try_from(huge.threads()[0]).is_ok() && !huge.once[0]);
    }

    #[test]
    fn chunks_have_a_team_each() {
        let launch = Launch { depth: 0, is_combined: true, thread_limit: 256, chunk: Some(128), ..NEST };
        let shape = Shape::new(&launch, 1000, [0; 3], false);
        assert_eq!((shape.teams, shape.team, shape.parts), (8, [128, 1, 1], 8));
    }
}
