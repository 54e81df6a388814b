//! Loops that a device ends by itself: a graph whose node of kernels is repeated as long as the last of them says so.
//!
//! The launches of one iteration are recorded as for a [graph](super::super::graph), and followed by a kernel that
//! counts the iteration and compares a number with a bound (`kernels/repeat.cl`). A loop is launched once, so the graph
//! is made for this launch and not kept.
//!
//! The kernels of one iteration run after all kernels of the previous one, so iterations may use the same scratch
//! memory. The counter is not scratch memory, because it lasts for the whole loop.

use super::{Backend, Capture, Session};
use crate::device::gpu::GraphNode;
use crate::error::DeviceError;
use crate::kernel::{
    ArgumentValue, Arguments, DeviceSite, DeviceView, DeviceViewMut, ElementType, Enqueue, Groups, Kernel, KernelText,
    Parameters, Program, Read, Until, Write,
};
use std::sync::Arc;

// SAFETY: each kernel touches only the first element of its buffers.
const REPEAT: Program = unsafe { Program::new("repeat.cl", include_str!("../../../../kernels/repeat.cl")) };

/// Parameters: the number, the counter, the number of iterations, the bound, the kind of both, the condition's handle.
type Comparison<T> = (Read<T>, Write<u64>, u64, T, i32, u64);

static BEGIN: Kernel<(Write<u64>,)> = Kernel::new(&REPEAT, "begin_loop");
static COUNT: Kernel<(Write<u64>, u64, u64)> = Kernel::new(&REPEAT, "repeat");
static UNTIL_32: Kernel<Comparison<u32>> = Kernel::new(&REPEAT, "until_32");
static UNTIL_64: Kernel<Comparison<u64>> = Kernel::new(&REPEAT, "until_64");

/// Stands for the handle of the condition, which is known when the graph is made.
const NO_HANDLE: u64 = 0;

/// The kernel that ends an iteration, with its arguments except for the handle.
struct Last {
    text: &'static KernelText,
    arguments: Vec<ArgumentValue>,
}

impl Last {
    fn new(counter: DeviceSite, until: &Until) -> Self {
        let mut counter = DeviceViewMut::new(counter);
        let at_most = until.at_most;
        let Some((site, element, bound)) = until.number else {
            return Self::of(&COUNT, (&mut counter, at_most, NO_HANDLE));
        };
        use ElementType::{F32, F64, I32, I64, U32, U64};
        let kind = match element {
            F32 | F64 => 0,
            I32 | I64 => 1,
            U32 | U64 => 2,
        };
        match element {
            F32 | I32 | U32 => {
                let [a, b, c, d, ..] = bound;
                let bound = u32::from_ne_bytes([a, b, c, d]);
                Self::of(&UNTIL_32, (&DeviceView::new(site), &mut counter, at_most, bound, kind, NO_HANDLE))
            }
            F64 | I64 | U64 => {
                let bound = u64::from_ne_bytes(bound);
                Self::of(&UNTIL_64, (&DeviceView::new(site), &mut counter, at_most, bound, kind, NO_HANDLE))
            }
        }
    }

    fn of<P: Parameters, A: Arguments<P>>(kernel: &'static Kernel<P>, values: A) -> Self {
        let mut arguments = Vec::new();
        values.values(&mut arguments);
        Self { text: kernel.text(), arguments }
    }
}

impl<B: Backend> Session<'_, B> {
    /// Launches the recorded parts as a loop. If it is refused for lack of memory, it can be tried again.
    pub(super) fn repeat(&mut self, until: &Until) -> Result<(), DeviceError> {
        let Some(capture) = self.capture.take() else { return Ok(()) };
        if capture.is_empty() {
            return Ok(()); // without kernels, an iteration changes nothing
        }
        let repeated = self.repeat_parts(&capture, until);
        if repeated.is_err() {
            self.capture = Some(capture);
        }
        repeated
    }

    fn repeat_parts(&mut self, capture: &Capture<B>, until: &Until) -> Result<(), DeviceError> {
        let backend = &self.gpu.backend;
        let Some((nodes, edges)) = capture.as_graph() else {
            return Err(DeviceError::Unsupported {
                kernel: COUNT.text().name.to_owned(),
                device: backend.name().to_owned(),
                why: "launches in clusters and cooperative launches cannot be repeated by the device; try a loop of \
                      replays"
                    .to_owned(),
            });
        };
        let (memory, base) = self.allocate(size_of::<u64>())?;
        self.memory.push(memory);
        let counter = DeviceSite { base, offset_bytes: 0, strides: [1; 4], extents: [1; 4] };
        let begin = Last::of(&BEGIN, (&mut DeviceViewMut::new(counter),));
        self.launch(begin.text, [1, 1, 1].into(), &begin.arguments)?;
        let last = Last::new(counter, until);
        let function = self.gpu.kernels.get(backend, last.text)?;
        let groups: Groups = [1, 1, 1].into();
        let last = GraphNode { function: &*function, group: last.text.group, groups, arguments: &last.arguments };
        // SAFETY: the values match the kernels' parameters, as for launches.
        let graph = Arc::new(unsafe { backend.loop_graph(&nodes, &edges, &last)? });
        // SAFETY: the flight keeps the graph and the counter until the task has ended. The other memory is the task's,
        // as for the launch of a graph.
        unsafe { backend.launch_graph(self.stream(), &graph)? };
        self.graph = Some(graph);
        Ok(())
    }
}
