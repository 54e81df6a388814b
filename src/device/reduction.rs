//! Reductions on an accelerator: each task adds to a contribution in scratch memory, which a kernel combines with the
//! region.
//!
//! The kernels (`kernels/combine.cl`) have the same results as the operations on the host, bit for bit.

use crate::error::DeviceError;
use crate::kernel::{
    ArgumentValue, Combination, DeviceSite, DeviceView, DeviceViewMut, ElementType, Enqueue, Kernel, KernelText,
    Operation, Program, Read, Scalar, Write,
};
use crate::kernel::{Arguments, Parameters};
use crate::memory::strides_of;

// SAFETY: a thread touches only elements of the contribution below `n`, and elements of the region at indices within
// the extents. The host passes the strides of the region, and as `span` one more than the offset of its last element.
const COMBINE: Program = unsafe { Program::new("combine.cl", include_str!("../../kernels/combine.cl")) };

/// Parameters: the contribution, the region; the number of elements, the span of the region; three extents, four
/// strides.
type Sum<T> = (Read<T>, Write<T>, i64, i64, i64, i64, i64, i64, i64, i64, i64);
/// Like [`Sum`]; whether the largest element is sought.
type Extreme<T> = (Read<T>, Write<T>, i64, i64, i64, i64, i64, i64, i64, i64, i64, i32);

static BEGIN_32: Kernel<(Write<u32>, u32, i64)> = Kernel::new(&COMBINE, "begin_32");
static BEGIN_64: Kernel<(Write<u64>, u64, i64)> = Kernel::new(&COMBINE, "begin_64");
static SUM_DOUBLE: Kernel<Sum<f64>> = Kernel::new(&COMBINE, "sum_double");
static SUM_FLOAT: Kernel<Sum<f32>> = Kernel::new(&COMBINE, "sum_float");
static SUM_32: Kernel<Sum<u32>> = Kernel::new(&COMBINE, "sum_32");
static SUM_64: Kernel<Sum<u64>> = Kernel::new(&COMBINE, "sum_64");
static EXTREME_DOUBLE: Kernel<Extreme<i64>> = Kernel::new(&COMBINE, "extreme_double");
static EXTREME_FLOAT: Kernel<Extreme<i32>> = Kernel::new(&COMBINE, "extreme_float");
static EXTREME_INT: Kernel<Extreme<i32>> = Kernel::new(&COMBINE, "extreme_int");
static EXTREME_UNSIGNED: Kernel<Extreme<u32>> = Kernel::new(&COMBINE, "extreme_unsigned");
static EXTREME_INT64: Kernel<Extreme<i64>> = Kernel::new(&COMBINE, "extreme_int64");
static EXTREME_UINT64: Kernel<Extreme<u64>> = Kernel::new(&COMBINE, "extreme_uint64");

/// The most groups of a launch. The threads of more elements take several each.
const MOST_GROUPS: usize = 1024;

/// A task's contribution to a region, in memory of the task.
pub(crate) struct Contribution {
    combination: Combination,
    part: DeviceSite,
    whole: DeviceSite,
}

impl Contribution {
    /// Allocates a contribution to the region at `site` and sets it to the identity. The task's body finds the
    /// contribution at `site` from then on.
    ///
    /// # Errors
    /// Returns an error if there is no memory, or if the device fails.
    pub(crate) fn begin(
        onto: &mut dyn Enqueue,
        combination: Combination,
        site: &mut DeviceSite,
    ) -> Result<Self, DeviceError> {
        let Combination { element, identity, .. } = combination;
        let extents = site.extents;
        let n: usize = extents.iter().product();
        let [a, b, c, d, ..] = identity;
        let bytes = match element {
            ElementType::F32 | ElementType::I32 | ElementType::U32 => 4,
            ElementType::F64 | ElementType::I64 | ElementType::U64 => 8,
        };
        let base = onto.scratch((n * bytes).max(bytes))?;
        let part = DeviceSite { base, offset_bytes: 0, strides: strides_of(&extents), extents };
        match bytes {
            4 => {
                launch(onto, &BEGIN_32, n, (&mut DeviceViewMut::new(part), u32::from_ne_bytes([a, b, c, d]), count(n)))?
            }
            _ => launch(onto, &BEGIN_64, n, (&mut DeviceViewMut::new(part), u64::from_ne_bytes(identity), count(n)))?,
        }
        Ok(Self { combination, part, whole: std::mem::replace(site, part) })
    }

    /// Combines the contribution with its region, after everything that the task has enqueued.
    ///
    /// # Errors
    /// Returns an error if the device fails.
    pub(crate) fn combine(self, onto: &mut dyn Enqueue) -> Result<(), DeviceError> {
        use ElementType::{F32, F64, I32, I64, U32, U64};
        let Combination { operation, element, .. } = self.combination;
        match (operation, element) {
            (Operation::Sum, F64) => self.sum(onto, &SUM_DOUBLE),
            (Operation::Sum, F32) => self.sum(onto, &SUM_FLOAT),
            (Operation::Sum, I32 | U32) => self.sum(onto, &SUM_32),
            (Operation::Sum, I64 | U64) => self.sum(onto, &SUM_64),
            (_, F64) => self.extreme(onto, &EXTREME_DOUBLE),
            (_, F32) => self.extreme(onto, &EXTREME_FLOAT),
            (_, I32) => self.extreme(onto, &EXTREME_INT),
            (_, U32) => self.extreme(onto, &EXTREME_UNSIGNED),
            (_, I64) => self.extreme(onto, &EXTREME_INT64),
            (_, U64) => self.extreme(onto, &EXTREME_UINT64),
        }
    }

    fn sum<T: Scalar>(self, onto: &mut dyn Enqueue, kernel: &Kernel<Sum<T>>) -> Result<(), DeviceError> {
        let ([n, span], [n1, n2, n3], [s0, s1, s2, s3]) = self.geometry();
        let (part, mut whole) = (DeviceView::new(self.part), DeviceViewMut::new(self.whole));
        launch(onto, kernel, n as usize, (&part, &mut whole, n, span, n1, n2, n3, s0, s1, s2, s3))
    }

    fn extreme<T: Scalar>(self, onto: &mut dyn Enqueue, kernel: &Kernel<Extreme<T>>) -> Result<(), DeviceError> {
        let largest = i32::from(self.combination.operation == Operation::Max);
        let ([n, span], [n1, n2, n3], [s0, s1, s2, s3]) = self.geometry();
        let (part, mut whole) = (DeviceView::new(self.part), DeviceViewMut::new(self.whole));
        launch(onto, kernel, n as usize, (&part, &mut whole, n, span, n1, n2, n3, s0, s1, s2, s3, largest))
    }

    /// Returns the number of elements and the span, all extents but the first, and the strides.
    fn geometry(&self) -> ([i64; 2], [i64; 3], [i64; 4]) {
        let DeviceSite { extents, strides, .. } = &self.whole;
        let n: usize = extents.iter().product();
        let [_, n1, n2, n3] = extents.map(|extent| count(extent.max(1)));
        ([count(n), count(self.whole.span())], [n1, n2, n3], strides.map(count))
    }
}

fn count(n: usize) -> i64 {
    i64::try_from(n).expect("memory has less than 2^63 elements")
}

/// Enqueues a kernel with a thread for each of `n` elements, or with fewer threads if there are many elements.
fn launch<P: Parameters, A: Arguments<P>>(
    onto: &mut dyn Enqueue,
    kernel: &Kernel<P>,
    n: usize,
    arguments: A,
) -> Result<(), DeviceError> {
    let text: &KernelText = kernel.text();
    let groups = n.div_ceil(text.group[0] as usize).min(MOST_GROUPS);
    if groups == 0 {
        return Ok(());
    }
    let mut values: Vec<ArgumentValue> = Vec::new();
    arguments.values(&mut values);
    onto.launch(text, [groups as u32, 1, 1].into(), &values)
}
