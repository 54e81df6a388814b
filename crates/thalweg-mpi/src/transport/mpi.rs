//! The transport over MPI: raw non-blocking calls, by one thread at a time.
//!
//! rsmpi initializes MPI and ends it; its requests borrow their buffers for a scope, which regions of tasks do not fit,
//! so messages use the raw calls. Packets have tag 0 and are found by a matched probe. Regions have the other tags.
//! Messages longer than an `int` can count are sent in several parts under one tag, which MPI keeps in order. The
//! requests of channels are persistent (MPI 4.1, section 3.9): they are made for the first message, and started again
//! for all others with the same memory.
//!
//! Invariants, on which the unsafe code rests:
//! 1. Threads make their calls one after the other, which MPI has granted (`MPI_THREAD_SERIALIZED` or more). The
//!    communication thread, which has initialized MPI, also ends it: it calls `close`.
//! 2. The buffer of each pending request belongs to a message in `flights`, boxed or in a vector's heap memory, so it
//!    keeps its address, and it is given back only after all its requests have been completed. If the transport ends
//!    with requests pending, their messages are leaked.
//! 3. A persistent request is started only while it is inactive, and only for a message with the address and the length
//!    for which it was made. While it is active, it is pending (2). While it is inactive, MPI does not use its buffer,
//!    which may have been freed.

#![allow(unsafe_code)] // requests that outlive a call are made only through the raw interface

use super::{Event, Incoming, Outgoing, Transport, first_channel};
use mpi::environment::Universe;
use mpi::ffi;
use std::collections::HashMap;
use std::ffi::{c_int, c_void};
use std::mem::MaybeUninit;

const PACKET: c_int = 0;
/// Most bytes of one MPI message.
const PART: usize = 1 << 30;

/// Most persistent requests. If there are more, those that are inactive are freed.
const MOST_KEPT: usize = 4096;

/// The way of a message, its other rank and its tag.
type Line = (bool, usize, u32);

/// A persistent request.
struct Kept {
    request: ffi::MPI_Request,
    address: usize,
    len: usize,
    is_active: bool,
}

/// A message that MPI reads or writes.
enum Flight {
    Packet(#[expect(dead_code, reason = "MPI reads its bytes")] Vec<u8>),
    Sent(Box<dyn Outgoing>),
    Received(Box<dyn Incoming>),
}

/// The connection to all ranks of the program that `mpirun` has started.
pub(crate) struct Mpi {
    universe: Universe,
    comm: ffi::MPI_Comm,
    rank: usize,
    size: usize,
    tags: u32,
    requests: Vec<ffi::MPI_Request>,
    /// For each request, its message.
    flight_of: Vec<u64>,
    /// Messages, each with the number of its requests that are pending, and its persistent request.
    flights: HashMap<u64, (usize, Flight, Option<Line>)>,
    kept: HashMap<Line, Kept>,
    next: u64,
    indices: Vec<c_int>,
    lost: Vec<(usize, String)>,
}

// SAFETY: all methods need the transport exclusively, so the calls of several threads follow one another (invariant 1);
// handles of MPI are valid in all threads of the process. `Universe`, which belongs to its thread, is used only by
// `close`.
unsafe impl Send for Mpi {}

impl Mpi {
    /// Initializes MPI in this thread, which will also end it.
    pub(crate) fn open() -> Result<Self, String> {
        let (universe, granted) = mpi::initialize_with_threading(mpi::Threading::Multiple).ok_or(
            "MPI is initialized already, and can be initialized only once in a process; try one cluster per process, \
             and no MPI calls before it",
        )?;
        if granted < mpi::Threading::Serialized {
            return Err(format!(
                "this MPI grants threads only {granted:?}, but a thread other than `main` must call it; try an MPI that \
                 is built with support for threads"
            ));
        }
        let mut comm = MaybeUninit::uninit();
        let (mut rank, mut size) = (0, 0);
        let mut bound: *mut c_int = std::ptr::null_mut();
        let mut known = 0;
        // SAFETY: MPI is initialized, by this thread, and all pointers are those of local variables. The bound of tags
        // is a predefined attribute whose value is a pointer to an `int` that MPI owns.
        let tags = unsafe {
            ffi::MPI_Comm_dup(ffi::RSMPI_COMM_WORLD, comm.as_mut_ptr());
            let comm = comm.assume_init();
            ffi::MPI_Comm_set_errhandler(comm, ffi::RSMPI_ERRORS_RETURN);
            ffi::MPI_Comm_rank(comm, &mut rank);
            ffi::MPI_Comm_size(comm, &mut size);
            let value = (&raw mut bound).cast::<c_void>();
            ffi::MPI_Comm_get_attr(ffi::RSMPI_COMM_WORLD, ffi::MPI_TAG_UB as c_int, value, &mut known);
            if known == 0 || bound.is_null() { 32767 } else { *bound }
        };
        Ok(Self {
            universe,
            // SAFETY: `MPI_Comm_dup` has written it; the handler of `MPI_COMM_WORLD` ends the process if it fails.
            comm: unsafe { comm.assume_init() },
            rank: rank as usize,
            size: size as usize,
            tags: tags as u32,
            requests: Vec::new(),
            flight_of: Vec::new(),
            flights: HashMap::new(),
            kept: HashMap::new(),
            next: 0,
            indices: Vec::new(),
            lost: Vec::new(),
        })
    }

    /// Starts the requests of a message to or from `peer`: `start` is called with each part's address and length.
    fn begin(
        &mut self,
        flight: Flight,
        peer: usize,
        (first, len): (*mut u8, usize),
        start: impl Fn(*mut c_void, c_int, *mut ffi::MPI_Request) -> c_int,
    ) {
        let number = self.next;
        self.next += 1;
        let parts = len.div_ceil(PART).max(1);
        let mut pending = 0;
        for part in 0..parts {
            let (begin, end) = (part * PART, len.min((part + 1) * PART));
            let mut request = MaybeUninit::uninit();
            let code = start(first.wrapping_add(begin).cast(), (end - begin) as c_int, request.as_mut_ptr());
            if code != 0 {
                self.lost.push((peer, format!("MPI refuses a message with code {code}")));
                break;
            }
            // SAFETY: the call has succeeded, so it has written the request.
            self.requests.push(unsafe { request.assume_init() });
            self.flight_of.push(number);
            pending += 1;
        }
        self.flights.insert(number, (pending, flight, None));
    }

    /// Starts the persistent request of a message of a channel; `make` makes one for an address and a length. Returns
    /// the message if its channel has none.
    fn start(
        &mut self,
        flight: Flight,
        line: Line,
        (first, len): (*mut u8, usize),
        make: impl Fn(*mut c_void, c_int, *mut ffi::MPI_Request) -> c_int,
    ) -> Option<Flight> {
        if line.2 < first_channel(self.tags) || len > PART {
            return Some(flight);
        }
        let fits = |kept: &Kept| (kept.address, kept.len) == (first.addr(), len);
        match self.kept.get(&line) {
            Some(kept) if kept.is_active => return Some(flight),
            Some(kept) if fits(kept) => {}
            _ => {
                let mut request = MaybeUninit::uninit();
                if make(first.cast(), len as c_int, request.as_mut_ptr()) != 0 {
                    return Some(flight);
                }
                self.free_kept(|other, kept, all| other == line || all >= MOST_KEPT && !kept.is_active);
                // SAFETY: the call has succeeded, so it has written the request.
                let request = unsafe { request.assume_init() };
                self.kept.insert(line, Kept { request, address: first.addr(), len, is_active: false });
            }
        }
        let kept = self.kept.get_mut(&line)?;
        // SAFETY: the request is inactive and was made for this memory (invariant 3), which stays in `flights` (2).
        if unsafe { ffi::MPI_Start(&mut kept.request) } != 0 {
            return Some(flight);
        }
        kept.is_active = true;
        self.requests.push(kept.request);
        self.flight_of.push(self.next);
        self.flights.insert(self.next, (1, flight, Some(line)));
        self.next += 1;
        None
    }

    /// Frees the persistent requests for which `ends` returns true; they must be inactive.
    fn free_kept(&mut self, ends: impl Fn(Line, &Kept, usize) -> bool) {
        let all = self.kept.len();
        self.kept.retain(|line, kept| {
            let ends = ends(*line, kept, all);
            if ends {
                // SAFETY: the request is persistent and has not been freed, because it is removed here.
                unsafe { ffi::MPI_Request_free(&mut kept.request) };
            }
            !ends
        });
    }

    /// Reports the requests that have been completed.
    fn complete(&mut self, events: &mut Vec<Event>) {
        if self.requests.is_empty() {
            return;
        }
        let mut done = 0;
        self.indices.resize(self.requests.len(), 0);
        let count = self.requests.len() as c_int;
        // SAFETY: the arrays have `count` elements, and the buffers of all requests are in `flights` (invariant 2).
        let code = unsafe {
            ffi::MPI_Testsome(
                count,
                self.requests.as_mut_ptr(),
                &mut done,
                self.indices.as_mut_ptr(),
                ffi::RSMPI_STATUSES_IGNORE,
            )
        };
        if code != 0 {
            self.lost.push((self.rank, format!("MPI cannot complete a message, code {code}")));
            return;
        }
        let done = &mut self.indices[..done.max(0) as usize];
        done.sort_unstable();
        for &at in done.iter().rev() {
            self.requests.swap_remove(at as usize);
            let number = self.flight_of.swap_remove(at as usize);
            let (pending, _, line) = self.flights.get_mut(&number).expect("each request has a message");
            *pending -= 1;
            if let Some(kept) = line.and_then(|line| self.kept.get_mut(&line)) {
                kept.is_active = false;
            }
            if *pending == 0 {
                match self.flights.remove(&number) {
                    Some((_, Flight::Sent(item), _)) => events.push(Event::Sent(item)),
                    Some((_, Flight::Received(item), _)) => events.push(Event::Received(item)),
                    _ => {}
                }
            }
        }
    }

    /// Returns a packet that has arrived.
    fn packet(&mut self) -> Option<(usize, Vec<u8>)> {
        let (mut found, mut len) = (0, 0);
        let mut message = MaybeUninit::uninit();
        let mut status = MaybeUninit::<ffi::MPI_Status>::uninit();
        // SAFETY: all pointers are those of local variables. The message and the status are read only after the probe
        // has found one, and then MPI has written them. The bytes are received into a vector of their length.
        unsafe {
            let any = ffi::RSMPI_ANY_SOURCE;
            let code = ffi::MPI_Improbe(any, PACKET, self.comm, &mut found, message.as_mut_ptr(), status.as_mut_ptr());
            if code != 0 {
                self.lost.push((self.rank, format!("MPI cannot look for messages, code {code}")));
                return None;
            }
            if found == 0 {
                return None;
            }
            let status = status.assume_init();
            ffi::MPI_Get_count(&status, ffi::RSMPI_UINT8_T, &mut len);
            let mut bytes = vec![0u8; len.max(0) as usize];
            let first = bytes.as_mut_ptr().cast();
            ffi::MPI_Mrecv(first, len, ffi::RSMPI_UINT8_T, message.as_mut_ptr(), ffi::RSMPI_STATUS_IGNORE);
            Some((status.MPI_SOURCE as usize, bytes))
        }
    }
}

impl Transport for Mpi {
    fn rank(&self) -> usize {
        self.rank
    }

    fn size(&self) -> usize {
        self.size
    }

    fn tags(&self) -> u32 {
        self.tags
    }

    fn post(&mut self, to: usize, mut packet: Vec<u8>) {
        let (bytes, comm) = ((packet.as_mut_ptr(), packet.len()), self.comm);
        self.begin(Flight::Packet(packet), to, bytes, |first, len, request| {
            // SAFETY: the bytes are those of the packet, which stays in `flights` (invariant 2).
            unsafe { ffi::MPI_Isend(first, len, ffi::RSMPI_UINT8_T, to as c_int, PACKET, comm, request) }
        });
    }

    fn send(&mut self, to: usize, tag: u32, item: Box<dyn Outgoing>) {
        let (bytes, comm) = (item.bytes(), self.comm);
        let bytes = (bytes.as_ptr().cast_mut(), bytes.len());
        let (rank, mpi_tag) = (to as c_int, 1 + tag as c_int);
        let left = self.start(Flight::Sent(item), (true, to, tag), bytes, |first, len, request| {
            // SAFETY: the call does not use the bytes; `start` uses them as invariant 3 says.
            unsafe { ffi::MPI_Send_init(first, len, ffi::RSMPI_UINT8_T, rank, mpi_tag, comm, request) }
        });
        let Some(flight) = left else { return };
        self.begin(flight, to, bytes, |first, len, request| {
            // SAFETY: the bytes are those of the item, which stays in `flights` (invariant 2); MPI only reads them.
            unsafe { ffi::MPI_Isend(first, len, ffi::RSMPI_UINT8_T, rank, mpi_tag, comm, request) }
        });
    }

    fn receive(&mut self, from: usize, tag: u32, mut item: Box<dyn Incoming>) {
        let (bytes, comm) = (item.bytes(), self.comm);
        let bytes = (bytes.as_mut_ptr(), bytes.len());
        let (rank, mpi_tag) = (from as c_int, 1 + tag as c_int);
        let left = self.start(Flight::Received(item), (false, from, tag), bytes, |first, len, request| {
            // SAFETY: the call does not use the bytes; `start` uses them as invariant 3 says.
            unsafe { ffi::MPI_Recv_init(first, len, ffi::RSMPI_UINT8_T, rank, mpi_tag, comm, request) }
        });
        let Some(flight) = left else { return };
        self.begin(flight, from, bytes, |first, len, request| {
            // SAFETY: the bytes are those of the item, which stays in `flights` and is used by nothing else (invariant
            // 2).
            unsafe { ffi::MPI_Irecv(first, len, ffi::RSMPI_UINT8_T, rank, mpi_tag, comm, request) }
        });
    }

    fn poll(&mut self, events: &mut Vec<Event>) {
        while let Some((from, bytes)) = self.packet() {
            events.push(Event::Packet { from, bytes });
        }
        self.complete(events);
        events.extend(self.lost.drain(..).map(|(rank, reason)| Event::Lost { rank, reason }));
    }

    fn is_busy(&self) -> bool {
        !self.flights.is_empty()
    }

    fn abandon(&mut self) -> Vec<Box<dyn Incoming>> {
        Vec::new() // MPI cannot be relied on to cancel messages, so it may still use their buffers
    }

    fn close(mut self, lost: bool) {
        if !lost {
            self.free_kept(|_, kept, _| !kept.is_active);
        }
        let Self { universe, flights, .. } = self;
        if lost || !flights.is_empty() {
            // Ending MPI would wait for ranks that are gone, and MPI may still use the buffers. `mpirun` ends the other
            // ranks when this process exits without having ended MPI.
            std::mem::forget((universe, flights));
        }
    }
}
