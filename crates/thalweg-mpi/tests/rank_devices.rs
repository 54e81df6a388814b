//! Tasks of a cluster on accelerators: messages start and end in host memory, the runtimes copy. Skipped without an
//! OpenCL implementation, unless `THALWEG_REQUIRE` contains `opencl`.

use thalweg::Runtime;
use thalweg::kernel::{Kernel, Program, Read, Write};
use thalweg::task::IterationSpace;
use thalweg_mpi::{Cluster, ClusterError, Network, Options, owners};

const TEXT: &str = "
    KERNEL(64, 1, 1) add(IN(double, from, n), INOUT(double, to, n), int n)
    {
        REGION(from); REGION(to);
        int i = GLOBAL_ID(0);
        if (i < n) to[i] += from[i] + 1.0;
    }";

#[allow(unsafe_code, reason = "a kernel's text promises what its head declares")]
// SAFETY: the kernel touches the first n elements of both arrays, as its signature declares.
const PROGRAM: Program = unsafe { Program::new("add.cl", TEXT) };
static ADD: Kernel<(Read<f64>, Write<f64>, i32)> = Kernel::new(&PROGRAM, "add");

const TILES: usize = 6;
const LEN: usize = 1000;

/// Adds each tile to the next one, around the ranks; half of the tasks run on devices only. Returns all tiles and the
/// copies to devices on this rank.
fn circulate(cluster: &Cluster) -> Result<(Vec<f64>, u64), ClusterError> {
    let tiles = cluster.distributed::<f64, thalweg::ndarray::Ix1>(TILES * LEN, LEN, owners::cyclic);
    let space = IterationSpace::new("tiles", vec![1.0; TILES]);
    for round in 0..3 {
        space.begin();
        for at in 0..TILES {
            let accesses = (tiles.nth(at).input(), tiles.nth((at + 1) % TILES).inout());
            cluster.task("add", accesses).local(|task| {
                if (round + at) % 2 == 0 {
                    let task = task.host(|_, (from, to)| to.iter_mut().zip(from).for_each(|(to, x)| *to += x + 1.0));
                    return task.at(&space, at).submit();
                }
                let task = task.gpu(|k, (from, mut to)| k.launch(&ADD, LEN, (&from, &mut to, LEN as i32)));
                task.at(&space, at).submit()
            })?;
        }
    }
    let result = cluster.gather(&tiles)?;
    let links = cluster.runtime().statistics().links;
    Ok((result.to_vec(), links.iter().map(|link| link.copies).sum()))
}

#[test]
fn kernels_and_messages_alternate_on_any_number_of_ranks() {
    let units = "1:CPU:1,1:OPENCL:1";
    if let Err(missing) = Runtime::builder().compute_units(units).pin_threads(false).build() {
        let required = std::env::var("THALWEG_REQUIRE").unwrap_or_default();
        assert!(!required.split(',').any(|name| name == "opencl"), "OpenCL is required: {missing}");
        return eprintln!("skipped: {missing}");
    }
    let mut expected = vec![0.0; TILES];
    for at in (0..3).flat_map(|_| 0..TILES) {
        expected[(at + 1) % TILES] += expected[at] + 1.0;
    }
    let expected: Vec<f64> = expected.into_iter().flat_map(|x| [x; LEN]).collect();
    for ranks in [1, 2, 3] {
        std::thread::scope(|scope| {
            for end in Network::new(ranks).endpoints() {
                let expected = &expected;
                scope.spawn(move || {
                    let builder = Runtime::builder().compute_units(units).pin_threads(false);
                    let cluster = Options::new().over(end, builder).unwrap();
                    let (found, copies) = circulate(&cluster).unwrap();
                    assert_eq!(&found, expected, "{ranks} ranks");
                    assert!(copies > 0, "no task has run on a device");
                    cluster.wait().unwrap();
                });
            }
        });
    }
}
