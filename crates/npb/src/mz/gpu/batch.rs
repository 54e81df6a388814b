//! Steps of a batch of zones on accelerators: one launch for all zones of a batch.
//!
//! A zone of class C has some 500 lines in each direction, far too few for a GPU, and a launch for each zone and sweep
//! costs more than the sweep. So the fields of a batch follow each other in one array, and each kernel reads from
//! tables which zone a thread group belongs to (`zone_of_group` in `kernels/npb_common.h`).

use std::ops::Range;

use thalweg::kernel::{Argument, DeviceView, Kernel, Launcher, Read};

use super::lu::fronts;
use super::{Enqueued, OPERATOR, Rd, Reads, Wr, Writes, bt, faces, interior, lu, sp};
use crate::mz::classes::Benchmark;
use crate::mz::faces::shapes;
use crate::mz::lu::UPDATE;
use crate::mz::physics::Mesh;

/// Integers of a zone in the table of zones: ZONE_WORDS.
const WORDS: usize = 10;

/// A zone's place in a batch, whose fields follow each other.
#[derive(Clone, Copy, Debug)]
pub struct Place {
    /// The zone's mesh. Mesh widths and time step are the same in all zones of a run.
    pub mesh: Mesh,
    /// The first numbers of the faces that the zone receives, in a set of faces of all zones.
    pub received: [usize; 4],
    /// The first number of the faces that it sends, in the faces of its batch.
    pub sent: usize,
}

/// Thread groups of a launch for all zones, by what a group covers.
#[derive(Clone, Copy)]
enum Groups {
    /// 32 × 4 interior points of a plane.
    Points,
    /// The same, of a component's plane.
    Components,
    /// 32 lines in x.
    X,
    /// 64 lines in y.
    Y,
    /// 64 lines in z.
    Z,
    /// A block's rows in LU's sweeps.
    Rows,
    /// 32 positions of 4 planes of the faces.
    Faces,
}

const ALL: [Groups; 7] =
    [Groups::Points, Groups::Components, Groups::X, Groups::Y, Groups::Z, Groups::Rows, Groups::Faces];

impl Groups {
    /// Returns how many groups a zone needs.
    fn of(self, mesh: &Mesh) -> usize {
        let [x, y, z] = interior(mesh);
        let lines = |lines: usize, group: usize| lines.div_ceil(group);
        match self {
            Self::Points => x.div_ceil(32) * y.div_ceil(4) * z,
            Self::Components => x.div_ceil(32) * y.div_ceil(4) * z * 5,
            Self::X => lines(y * z, 32),
            Self::Y => lines(x * z, 64),
            Self::Z => lines(x * y, 64),
            Self::Rows => {
                let [rows, planes, _] = FORWARD.group().map(|threads| threads as usize);
                y.div_ceil(rows) * z.div_ceil(planes)
            }
            Self::Faces => mesh.shape.nx.max(mesh.shape.ny).div_ceil(32) * (5 * z).div_ceil(4),
        }
    }
}

/// The launches for a batch of zones.
#[derive(Clone, Debug)]
pub struct Batch {
    /// The mesh of one zone; mesh widths and time step are the same in all zones.
    mesh: Mesh,
    numbers: i64,
    inside: i64,
    zones: i32,
    fronts: i32,
    /// For each kind of groups, its groups' positions in the table.
    groups: [Range<usize>; ALL.len()],
}

/// The tables of a batch, as kernels read them.
#[derive(Clone, Debug, Default)]
pub struct Tables {
    /// The zones.
    pub zones: Vec<i64>,
    /// The thread groups.
    pub groups: Vec<i32>,
}

/// The fields of a batch that a step uses.
#[derive(Debug)]
pub struct Fields<'f, 'd> {
    /// The solution, which the step advances.
    pub u: &'f mut Writes<'d>,
    /// The forcing.
    pub forcing: &'f Reads<'d>,
    /// The residual.
    pub r: &'f mut Writes<'d>,
}

/// The tables on the device.
type OnDevice<'t> = (&'t DeviceView<'t, i64>, &'t DeviceView<'t, i32>);

/// The parameters that all kernels share after their fields: the tables; numbers of a field, interior points; zones,
/// first group, groups.
macro_rules! kernel {
    ($name:ident, $program:expr, $function:literal, ($($field:ty),*), ($($other:ty),*)) => {
        static $name: Kernel<($($field,)* Read<i64>, Read<i32>, i64, i64, i32, i32, i32, $($other),*)> =
            Kernel::new(&$program, $function);
    };
}

kernel!(RESIDUAL, OPERATOR, "residual_of_zones", (Rd, Rd, Wr), (f64, f64, f64, f64));
kernel!(ADD, OPERATOR, "add_to_zones", (Wr, Rd), (f64));
kernel!(SEND, faces::FACES, "send_of_zones", (Rd, Wr), (i64));
kernel!(RECEIVE, faces::FACES, "receive_of_zones", (Rd, Wr), (i64));
kernel!(BT_X, bt::BT, "sweep_x_of_zones", (Rd, Wr, Wr), (f64, f64, f64));
kernel!(BT_YZ, bt::BT, "sweep_yz_of_zones", (Rd, Wr, Wr), (i32, f64, f64, f64));
kernel!(TXINVR, sp::SP, "txinvr_of_zones", (Rd, Wr), ());
kernel!(SP_X, sp::SP, "sweep_x_of_zones", (Rd, Wr, Wr), (f64, f64));
kernel!(SP_YZ, sp::SP, "sweep_yz_of_zones", (Rd, Wr, Wr), (i32, f64, f64));
kernel!(FORWARD, lu::LU, "forward_of_zones", (Rd, Rd, Wr), (i32, f64, f64, f64, f64));
kernel!(BACKWARD, lu::LU, "backward_of_zones", (Rd, Wr), (i32, f64, f64, f64, f64));

/// Launches a kernel for all zones, a group of threads for each group of this kind in the table.
macro_rules! launch {
    ($self:ident, $k:ident, $kernel:ident, $groups:expr, $tables:ident, ($($field:expr),*), ($($other:expr),*)) => {{
        let list = &$self.groups[$groups as usize];
        let [x, y, z] = $kernel.group().map(|threads| threads as usize);
        let all = $self.groups[ALL.len() - 1].end as i32;
        $k.launch(
            &$kernel,
            [x * list.len(), y, z],
            (
                $($field,)* $tables.0, $tables.1, $self.numbers, $self.inside, $self.zones, list.start as i32, all,
                $($other),*
            ),
        )
    }};
}

impl Batch {
    /// Creates the launches for zones, and their tables.
    ///
    /// # Panics
    /// Panics if there are no zones, or a zone or a table has more entries than kernels can count.
    pub fn new(places: &[Place]) -> (Self, Tables) {
        let mesh = places.first().expect("a batch has zones").mesh;
        let mut tables = Tables::default();
        let (mut numbers, mut inside) = (0, 0);
        for Place { mesh, received, sent } in places {
            let [nx, ny, nz] = super::integers(mesh).map(i64::from);
            let row = [numbers, inside, nx, ny, nz].into_iter().chain(received.map(|first| first as i64));
            tables.zones.extend(row.chain([*sent as i64]));
            numbers += 5 * nx * ny * nz;
            inside += mesh.shape.interior() as i64;
        }
        let groups = ALL.map(|kind| {
            let start = tables.groups.len() / 2;
            for (zone, place) in (0..).zip(places) {
                tables.groups.extend((0..kind.of(&place.mesh) as i32).flat_map(|group| [zone, group]));
            }
            start..tables.groups.len() / 2
        });
        assert!(i32::try_from(tables.groups.len()).is_ok(), "a launch has few enough groups to count");
        assert_eq!(tables.zones.len(), WORDS * places.len());
        let fronts = places.iter().map(|place| fronts(&place.mesh).1).max().unwrap_or(0);
        (Self { mesh, numbers, inside, zones: places.len() as i32, fronts, groups }, tables)
    }

    /// Performs a whole step of all zones, including the exchange: copies the faces in `from` to u, and sets the faces
    /// of the batch.
    ///
    /// # Errors
    /// Returns an error if the device rejects the work.
    pub fn step(
        &self,
        benchmark: Benchmark,
        k: &mut Launcher<'_>,
        mut fields: Fields<'_, '_>,
        (from, to): (&Reads<'_>, &mut Writes<'_>),
        tables: OnDevice<'_>,
    ) -> Enqueued {
        self.receive(k, from, fields.u, tables)?;
        match benchmark {
            Benchmark::Bt => self.bt(k, &mut fields, tables)?,
            Benchmark::Sp => self.sp(k, &mut fields, tables)?,
            Benchmark::Lu => self.lu(k, &mut fields, tables)?,
        }
        self.send(k, &*fields.u, to, tables)
    }

    /// Copies received faces to the outer faces of u.
    ///
    /// # Errors
    /// Returns an error if the device rejects the work.
    pub fn receive(
        &self,
        k: &mut Launcher<'_>,
        from: &Reads<'_>,
        u: &mut Writes<'_>,
        tables: OnDevice<'_>,
    ) -> Enqueued {
        launch!(self, k, RECEIVE, Groups::Faces, tables, (from, u), (from.len() as i64))
    }

    /// Sets the faces that the zones of the batch send.
    ///
    /// # Errors
    /// Returns an error if the device rejects the work.
    pub fn send(
        &self,
        k: &mut Launcher<'_>,
        u: impl Argument<Rd>,
        to: &mut Writes<'_>,
        tables: OnDevice<'_>,
    ) -> Enqueued {
        let sent = to.len() as i64;
        launch!(self, k, SEND, Groups::Faces, tables, (u, to), (sent))
    }

    fn bt(&self, k: &mut Launcher<'_>, fields: &mut Fields<'_, '_>, tables: OnDevice<'_>) -> Enqueued {
        self.residual(self.mesh.dt, k, fields, tables)?;
        let Fields { u, r, .. } = fields;
        let mut scratch = k.scratch::<f64>(bt::STORED * self.inside as usize)?;
        let stored = &mut scratch;
        for (d, groups) in (0i32..).zip([Groups::X, Groups::Y, Groups::Z]) {
            let [a, b, c] = bt::weights(&self.mesh, d as usize);
            match d {
                0 => launch!(self, k, BT_X, groups, tables, (&**u, &mut **r, &mut *stored), (a, b, c))?,
                _ => launch!(self, k, BT_YZ, groups, tables, (&**u, &mut **r, &mut *stored), (d, a, b, c))?,
            }
        }
        launch!(self, k, ADD, Groups::Components, tables, (&mut **u, &**r), (1.0))
    }

    fn sp(&self, k: &mut Launcher<'_>, fields: &mut Fields<'_, '_>, tables: OnDevice<'_>) -> Enqueued {
        let (t, dt) = (self.mesh.h.map(|h| 1.0 / h), self.mesh.dt);
        self.residual(dt, k, fields, tables)?;
        let Fields { u, r, .. } = fields;
        launch!(self, k, TXINVR, Groups::Points, tables, (&**u, &mut **r), ())?;
        let mut scratch = k.scratch::<f64>(sp::STORED * self.inside as usize)?;
        let stored = &mut scratch;
        launch!(self, k, SP_X, Groups::X, tables, (&**u, &mut **r, &mut *stored), (t[0], dt))?;
        launch!(self, k, SP_YZ, Groups::Y, tables, (&**u, &mut **r, &mut *stored), (1, t[1], dt))?;
        launch!(self, k, SP_YZ, Groups::Z, tables, (&**u, &mut **r, &mut *stored), (2, t[2], dt))?;
        launch!(self, k, ADD, Groups::Components, tables, (&mut **u, &**r), (1.0))
    }

    fn lu(&self, k: &mut Launcher<'_>, fields: &mut Fields<'_, '_>, tables: OnDevice<'_>) -> Enqueued {
        let Fields { u, r, .. } = &mut *fields;
        let ([x, y, z], dt) = (self.mesh.h.map(|h| 1.0 / h), self.mesh.dt);
        // The boundary of w is never read, so it need not be zero.
        let mut scratch = k.scratch::<f64>(self.numbers as usize)?;
        let w = &mut scratch;
        for front in 0..self.fronts {
            launch!(self, k, FORWARD, Groups::Rows, tables, (&**u, &**r, &mut *w), (front, x, y, z, dt))?;
        }
        for front in 0..self.fronts {
            launch!(self, k, BACKWARD, Groups::Rows, tables, (&**u, &mut *w), (front, x, y, z, dt))?;
        }
        launch!(self, k, ADD, Groups::Components, tables, (&mut **u, &*w), (UPDATE))?;
        self.residual(1.0, k, fields, tables)
    }

    fn residual(
        &self,
        scale: f64,
        k: &mut Launcher<'_>,
        fields: &mut Fields<'_, '_>,
        tables: OnDevice<'_>,
    ) -> Enqueued {
        let Fields { u, forcing, r } = fields;
        let [x, y, z] = self.mesh.h.map(|h| 1.0 / h);
        launch!(self, k, RESIDUAL, Groups::Points, tables, (&**u, *forcing, &mut **r), (scale, x, y, z))
    }
}

/// Returns how many numbers the faces of a zone have.
pub fn faces_of(mesh: &Mesh) -> usize {
    shapes(mesh.shape).iter().map(|shape| shape.iter().product::<usize>()).sum()
}
