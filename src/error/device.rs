//! What an accelerator can refuse or fail at.

/// A failure of a device, or of what it was asked to do. The code is the interface's own.
///
/// ```
/// use thalweg::error::DeviceError;
/// let lost = DeviceError::Lost { device: "GPU 0".to_owned(), what: "it fell off the bus".to_owned() };
/// assert!(lost.is_loss());
/// assert_eq!(lost.to_string(), "GPU 0 was lost: it fell off the bus");
/// ```
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DeviceError {
    /// A task wrote outside of a data object's memory. Only builds with debug assertions notice, where the memory has guard
    /// zones.
    #[error(
        "the body wrote outside of {data} on {device}: {bytes} bytes {side} its memory have changed; try checking the body's \
         unsafe code, or the indices of its kernels"
    )]
    Overrun {
        /// The device.
        device: String,
        /// The data object's name.
        data: String,
        /// How many bytes of the guard zone have changed.
        bytes: usize,
        /// Which zone: before or after.
        side: &'static str,
    },
    /// The device has too little memory left, though everything idle was given up.
    #[error(
        "cannot allocate {needed_bytes} bytes on {device}: {in_use_bytes} bytes are in use there by tasks, and nothing that is \
         idle is left to make room ({api} error {code}); try smaller regions"
    )]
    OutOfMemory {
        /// The device's name.
        device: String,
        /// What was asked for.
        needed_bytes: u64,
        /// What the tasks that are there use of its memory, or were promised, this one included.
        in_use_bytes: u64,
        /// The interface.
        api: &'static str,
        /// Its code.
        code: i32,
    },
    /// A program does not compile.
    #[error("cannot compile {program} for {device}:\n{log}")]
    Compilation {
        /// The program's name.
        program: String,
        /// The device's name.
        device: String,
        /// What the compiler said; places are in the program's own lines.
        log: String,
    },
    /// There is no compiler for the device, or it does not know the device's architecture.
    #[error("cannot compile {program} for {device}: {why}")]
    NoCompiler {
        /// The program's name.
        program: String,
        /// The device's name.
        device: String,
        /// What is missing, and what would help.
        why: String,
    },
    /// More threads than a device can count.
    #[error(
        "cannot launch kernel `{kernel}` with {threads:?} threads: one dimension is too large; try several launches"
    )]
    Geometry {
        /// The kernel's name.
        kernel: String,
        /// Threads asked for, in three dimensions.
        threads: [usize; 3],
    },
    /// With these arguments a kernel may touch what is not in a region.
    #[error(
        "cannot launch kernel `{kernel}`: its head says that with these arguments it may touch {touched} elements of \
         `{parameter}`, and the region given for that has {region}; try counts and strides made of the view's `len`, \
         `extents` and `strides`"
    )]
    Bounds {
        /// The kernel's name.
        kernel: String,
        /// The name of the buffer in the kernel's text.
        parameter: String,
        /// The box that the head declares: extents, with strides where elements are not side by side.
        touched: String,
        /// The region, in the same way.
        region: String,
    },
    /// A task across devices has no such part.
    #[error("cannot enqueue on the device of part {part}: the task has {parts} parts; try one of those")]
    NoPart {
        /// The part asked for.
        part: usize,
        /// How many there are.
        parts: usize,
    },
    /// The device of a part has another interface than the body calls.
    #[error(
        "cannot enqueue on the device of part {part}: its interface is {interface}, which this body does not call; try `gpu`"
    )]
    OtherInterface {
        /// The part asked for.
        part: usize,
        /// The kind of units with its interface.
        interface: &'static str,
    },
    /// An argument lies in the memory of another device than the kernel would run on.
    #[error("cannot launch kernel `{kernel}`: an argument lies in the memory of another part's device, {problem}")]
    Elsewhere {
        /// The kernel's name.
        kernel: String,
        /// Why that can't be, and what to try.
        problem: &'static str,
    },
    /// A loop over teams and threads would exceed what a device has.
    #[error(
        "cannot launch the loop `{kernel}`: it asks for {requested} {what}, and there are at most {limit}; try less"
    )]
    Limit {
        /// The function that the loop is in.
        kernel: String,
        /// What it would exceed.
        what: String,
        /// How much there is.
        limit: u64,
        /// How much it would take.
        requested: u64,
    },
    /// Iterations that would run at once touch the same element, and one of them writes it.
    #[error(
        "cannot launch the loop `{kernel}`: with these numbers different iterations touch the same element of `{array}`;          try a range in which each has its own, or `shared({array})` if any order will do"
    )]
    Conflict {
        /// The function that the loop is in.
        kernel: String,
        /// The array.
        array: String,
    },
    /// A call failed; the device goes on.
    #[error("{device}: {call} failed ({api} error {code}{})", described(what))]
    Call {
        /// The device's name.
        device: String,
        /// The call.
        call: &'static str,
        /// The interface.
        api: &'static str,
        /// Its code.
        code: i32,
        /// The code in words, if the interface has some.
        what: String,
    },
    /// The device cannot be used any more.
    #[error("{device} was lost: {what}")]
    Lost {
        /// The device's name.
        device: String,
        /// Why.
        what: String,
    },
}

fn described(what: &str) -> String {
    if what.is_empty() { String::new() } else { format!(": {what}") }
}

impl DeviceError {
    /// Whether the device itself is gone.
    pub fn is_loss(&self) -> bool {
        matches!(self, Self::Lost { .. })
    }

    /// How many bytes were refused, if it is that.
    pub(crate) fn refused_bytes(&self) -> Option<u64> {
        if let Self::OutOfMemory { needed_bytes, .. } = self { Some(*needed_bytes) } else { None }
    }

    /// With what is in use where bytes were refused, which devices do not know.
    pub(crate) fn with_in_use(mut self, bytes: u64) -> Self {
        if let Self::OutOfMemory { in_use_bytes, .. } = &mut self {
            *in_use_bytes = bytes;
        }
        self
    }
}
