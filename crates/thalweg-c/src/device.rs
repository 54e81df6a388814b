//! Bodies for accelerators: kernels from text, and functions that use the task's stream.

use crate::body::Argument;
#[cfg(any(feature = "cuda", feature = "hip"))]
use crate::body::{Body, view_on_device};
use crate::handles::{Table, get, insert, table, take};
use crate::launch::{Given, Launch};
use crate::status::{Problem, call, entries, put, text, tw_status};
use crate::task::tw_task;
use crate::view::number;
use std::ffi::c_char;
use std::sync::Arc;
use thalweg::TaskBuilder;
#[cfg(any(feature = "cuda", feature = "hip"))]
use thalweg::dynamic::AnyDeviceView;
use thalweg::dynamic::{AnyAccess, AnyArgument, AnyKernel, Dtype};
#[cfg(any(feature = "cuda", feature = "hip"))]
use thalweg::error::BoxError;
use thalweg::kernel::Threads;
#[cfg(any(feature = "cuda", feature = "hip"))]
use thalweg::kernel::{Addressed, RawTask};

static KERNELS: Table<AnyKernel> = table();

/// A kernel.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct tw_kernel {
    /// The handle's number; 0 is no kernel.
    pub id: u64,
}

/// The number of an argument.
#[repr(C)]
#[derive(Clone, Copy)]
pub union tw_number {
    /// For `TW_FLOAT64`.
    pub float64: f64,
    /// For `TW_FLOAT32`.
    pub float32: f32,
    /// For `TW_INT32`.
    pub int32: i32,
    /// For `TW_UINT32`.
    pub uint32: u32,
    /// For `TW_INT64`.
    pub int64: i64,
    /// For `TW_UINT64`.
    pub uint64: u64,
    /// For `TW_REGION`: the index of an access of the task.
    pub access: usize,
}

/// The type of an argument that is a region.
pub const TW_REGION: u32 = 100;

/// An argument of a kernel: `tw_region`, `tw_float64`, `tw_int32` and their like make one.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct tw_argument {
    /// `TW_REGION`, or the `tw_dtype` of a number.
    pub r#type: u32,
    /// The number, or the index of the access.
    pub value: tw_number,
}

/// The launch of a kernel.
#[repr(C)]
pub struct tw_launch {
    /// The kernel.
    pub kernel: tw_kernel,
    /// The number of threads along each dimension; 0 beyond the first means 1.
    pub threads: [usize; 3],
    /// The arguments, as the kernel's head declares them.
    pub arguments: *const tw_argument,
    /// The number of arguments.
    pub count: usize,
}

/// Makes a kernel of a text in Thalweg's dialect, which the guide's chapter on kernels describes. The library keeps
/// each text, once, until the process ends. `name` is that of the text in the messages of compilers.
///
/// # Safety
/// The texts end with a zero byte, and `made` points to a variable. With any arguments of the types in its head, the
/// kernel touches only the elements that its head declares.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tw_kernel_new(
    name: *const c_char,
    source: *const c_char,
    kernel: *const c_char,
    made: *mut tw_kernel,
) -> tw_status {
    const CALL: &str = "tw_kernel_new";
    call(|| {
        let missing = || Problem::invalid(CALL, "one of its texts is null; try a name, a text and a kernel's name");
        // SAFETY: the texts end with a zero byte, by this function's contract; here and below.
        let name = unsafe { text(CALL, "name", name) }?.ok_or_else(missing)?;
        // SAFETY: as above.
        let source = unsafe { text(CALL, "source", source) }?.ok_or_else(missing)?;
        // SAFETY: as above.
        let kernel = unsafe { text(CALL, "kernel", kernel) }?.ok_or_else(missing)?;
        // SAFETY: the kernel touches what its head declares, by this function's contract.
        let found = unsafe { AnyKernel::new(&name, &source, &kernel) }.map_err(|error| {
            Problem::Refused(format!("cannot `{CALL}` `{kernel}` of {name}: {error}; try another head"))
        })?;
        let id = insert(CALL, &KERNELS, found)?;
        // SAFETY: `made` points to a variable, by this function's contract.
        unsafe { put(CALL, made, tw_kernel { id }) }
    })
}

/// Releases the handle of a kernel. Tasks that were submitted with it go on.
#[unsafe(no_mangle)]
pub extern "C" fn tw_kernel_free(kernel: tw_kernel) -> tw_status {
    call(|| take("tw_kernel_free", "kernel", &KERNELS, kernel.id).map(drop))
}

/// # Safety
/// The launch has `count` arguments.
unsafe fn launch(call: &str, given: &tw_launch, accesses: usize) -> Result<Launch, Problem> {
    let kernel = *get(call, "kernel", &KERNELS, given.kernel.id)?;
    // SAFETY: by this function's contract.
    let arguments = unsafe { entries(call, given.arguments, given.count, "a launch has no arguments") }?;
    let argument = |argument: &tw_argument| {
        let tw_argument { r#type, value } = *argument;
        let is = |dtype| r#type == number(dtype);
        // SAFETY: C programs write the field that the type names, and every field may have any bits.
        let number = unsafe {
            match () {
                () if r#type == TW_REGION && value.access < accesses => return Ok(Given::Access(value.access)),
                () if is(Dtype::F64) => AnyArgument::F64(value.float64),
                () if is(Dtype::F32) => AnyArgument::F32(value.float32),
                () if is(Dtype::I32) => AnyArgument::I32(value.int32),
                () if is(Dtype::U32) => AnyArgument::U32(value.uint32),
                () if is(Dtype::I64) => AnyArgument::I64(value.int64),
                () if is(Dtype::U64) => AnyArgument::U64(value.uint64),
                () => {
                    let problem = "an argument is no number and no access of the task; try `tw_region(0)`";
                    return Err(Problem::invalid(call, problem));
                }
            }
        };
        Ok(Given::Number(number))
    };
    let arguments = arguments.iter().map(argument).collect::<Result<_, _>>()?;
    let [x, y, z] = given.threads;
    Ok(Launch { kernel, threads: Threads([x, y.max(1), z.max(1)]), arguments })
}

/// Calls a body with its task's stream.
#[cfg(any(feature = "cuda", feature = "hip"))]
fn call_on_stream<I: Addressed>(
    body: Body,
    argument: &Argument,
    raw: &RawTask<'_, I>,
    views: &[AnyDeviceView<'_>],
) -> Result<(), BoxError> {
    let views: Vec<_> = views.iter().map(|view| view_on_device(raw.ptr(view), view)).collect();
    crate::body::call(body, argument, std::ptr::null(), (raw.stream(), raw.device()), &views)
}

/// Adds a task's bodies for accelerators.
///
/// # Safety
/// As for `tw_submit`.
pub(crate) unsafe fn add_bodies<'rt>(
    call: &str,
    mut builder: TaskBuilder<'rt, Vec<AnyAccess>>,
    task: &tw_task,
    argument: &Arc<Argument>,
) -> Result<TaskBuilder<'rt, Vec<AnyAccess>>, Problem> {
    if task.launch_count > 0 {
        // SAFETY: `launches` has `launch_count` entries, by this function's contract.
        let given = unsafe { entries(call, task.launches, task.launch_count, "its launches are null") }?;
        // SAFETY: the launches are as described, by this function's contract.
        let launches = given.iter().map(|given| unsafe { launch(call, given, task.count) });
        let launches = launches.collect::<Result<Vec<_>, _>>()?;
        builder = builder.gpu(move |launcher, views| launches.iter().try_for_each(|one| one.enqueue(launcher, &views)));
    }
    _ = argument; // without the features below, nothing uses it
    #[cfg(feature = "cuda")]
    if let Some(body) = task.cuda {
        let argument = argument.clone();
        builder = builder.cuda(move |raw, views| call_on_stream(body, &argument, raw, &views));
    }
    #[cfg(feature = "hip")]
    if let Some(body) = task.hip {
        let argument = argument.clone();
        builder = builder.hip(move |raw, views| call_on_stream(body, &argument, raw, &views));
    }
    Ok(builder)
}
