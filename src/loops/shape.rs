//! The number of teams and threads that a kernel is launched with.
//!
//! The choice follows MACC: a team for each iteration of the loop over teams, a thread for each iteration of the
//! loops over threads, within the limits; further iterations are dealt out cyclically. The numbers of threads along a
//! dimension are powers of two, so that there are few different texts to compile; if their product exceeds the limit,
//! the largest dimension is halved.
//!
//! This module computes only values that follow from the trips alone: both bodies of a reduction must agree on them.

use super::nest::Nest;
use crate::error::DeviceError;
use crate::kernel::Launcher;

/// A team's memory on every device, in bytes.
pub const MOST_TEAM_BYTES: usize = 48 << 10;

/// Limit of the threads of one launch: they are counted by `int`.
const MOST_THREADS: i128 = 1 << 30;

/// The attribute's description of a kernel.
#[derive(Debug)]
pub struct Launch {
    pub function: &'static str,
    /// The written arrays.
    pub arrays: &'static [&'static str],
    pub teams: Option<u32>,
    pub thread_limit: u32,
    /// Number of iterations that a team takes together.
    pub chunk: Option<usize>,
    /// Number of nested loops over threads below the outermost loop.
    pub depth: usize,
    /// Whether the outermost loop is shared out over threads as well.
    pub is_combined: bool,
    pub is_reduced: bool,
    /// Whether loops become `if`s if a thread gets only one iteration.
    pub once: bool,
    pub innermost_first: bool,
    pub team_bytes: usize,
}

/// The shape of a launch; see the module documentation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Shape {
    pub(super) team: [u32; 3],
    pub(super) teams: usize,
    /// Whether a loop becomes an `if`: for the loop over teams, and those over threads along each dimension.
    pub(super) once: [bool; 4],
    pub(super) checked: bool,
    /// Number of values that teams leave of a reduction.
    pub parts: usize,
}

impl Shape {
    /// Creates the shape of a single team with this many threads.
    pub fn of_one_team(threads: u32) -> Self {
        Self { team: [threads, 1, 1], teams: 1, once: [false; 4], checked: false, parts: 0 }
    }

    /// Returns the total number of threads along each dimension.
    pub fn threads(&self) -> [usize; 3] {
        [self.teams * self.team[0] as usize, self.team[1] as usize, self.team[2] as usize]
    }

    /// Chooses the shape for an outermost loop with this many trips, and loops over threads with at most `inner`
    /// trips.
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
                // Of equals the outer one is halved, so that neighbouring threads stay together.
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
    /// Returns the shape of the launch; `None` if there is nothing to do.
    ///
    /// # Errors
    /// If iterations conflict, if a team's copy of an array is too short, or if the device lacks the threads or the
    /// memory for a team.
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

    /// 48 × 64 × 32: a team of 64 × 32 would exceed the limit of threads.
    #[test]
    fn too_large_team_takes_several_rounds() {
        let shape = Shape::new(&NEST, 48, [64, 32, 0], false);
        assert_eq!((shape.teams, shape.team), (48, [32, 32, 1]));
        assert_eq!(shape.once, [true, true, false, false], "two rounds along the first of the loops");
        let small = Shape::new(&Launch { thread_limit: 256, teams: Some(32), ..NEST }, 48, [64, 32, 0], false);
        assert_eq!((small.teams, small.team, small.once), (32, [16, 16, 1], [false; 4]));
    }

    #[test]
    fn first_dimension_goes_to_the_requested_loop() {
        let of = |innermost_first| Shape::new(&Launch { innermost_first, ..NEST }, 5, [4, 20, 0], false).team;
        assert_eq!((of(true), of(false)), ([32, 4, 1], [4, 32, 1]));
    }

    #[test]
    fn combined_loop_has_a_thread_per_iteration() {
        let launch = Launch { depth: 0, is_combined: true, thread_limit: 256, ..NEST };
        let shape = Shape::new(&launch, 1000, [0; 3], false);
        assert_eq!((shape.teams, shape.threads(), shape.once[0]), (4, [1024, 1, 1], true));
        let few = Shape::new(&Launch { teams: Some(3), ..launch }, 1000, [0; 3], false);
        assert_eq!((few.teams, few.once[0]), (3, false));
        let huge = Shape::new(&Launch { depth: 0, is_combined: true, ..NEST }, 1 << 40, [0; 3], false);
        assert!(i32::try_from(huge.threads()[0]).is_ok() && !huge.once[0]);
    }

    #[test]
    fn every_chunk_has_a_team() {
        let launch = Launch { depth: 0, is_combined: true, thread_limit: 256, chunk: Some(128), ..NEST };
        let shape = Shape::new(&launch, 1000, [0; 3], false);
        assert_eq!((shape.teams, shape.team, shape.parts), (8, [128, 1, 1], 8));
    }
}
