//! Spans of the crate `tracing` around bodies.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use thalweg::prelude::*;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

/// Collects the fields of each span, and counts entries and exits.
#[derive(Default)]
struct Collector {
    spans: Mutex<Vec<String>>,
    entered: AtomicU64,
    exited: AtomicU64,
}

struct Fields<'a>(&'a mut String);

impl Visit for Fields<'_> {
    fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
        self.0.push_str(&format!("{}={value:?} ", field.name()));
    }
}

struct Shared(Arc<Collector>);

impl Subscriber for Shared {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target() == "thalweg::task"
    }

    fn new_span(&self, span: &Attributes<'_>) -> Id {
        let mut text = String::new();
        span.record(&mut Fields(&mut text));
        let mut spans = self.0.spans.lock().unwrap();
        spans.push(text);
        Id::from_u64(spans.len() as u64)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, _: &Event<'_>) {}

    fn enter(&self, _: &Id) {
        self.0.entered.fetch_add(1, Ordering::Relaxed);
    }

    fn exit(&self, _: &Id) {
        self.0.exited.fetch_add(1, Ordering::Relaxed);
    }
}

#[test]
fn each_body_on_a_core_has_a_span_even_if_it_panics() {
    let collector = Arc::<Collector>::default();
    // This is the only test of the program that sets a subscriber.
    tracing::subscriber::set_global_default(Shared(collector.clone())).unwrap();
    let rt = Runtime::builder().compute_units("2:CPU:1").name("spans").build().unwrap();
    let x = rt.scalar(0u64);
    rt.task("spanned add", (x.inout(),)).cpu(|_, (x,)| x[0] += 1).submit().unwrap();
    rt.task("spanned panic", ()).cpu(|_, ()| panic!("on purpose")).submit().unwrap();
    assert_eq!(rt.read(&x).unwrap()[0], 1);
    rt.wait().unwrap_err();
    drop((x, rt));
    let spans = collector.spans.lock().unwrap();
    for name in ["spanned add", "spanned panic"] {
        let found: Vec<_> = spans.iter().filter(|span| span.contains(name)).collect();
        let [span] = found[..] else { panic!("one span of {name}: {found:?}") };
        assert!(span.contains("task=") && span.contains("unit=") && span.contains("spans.rs"), "{span}");
    }
    assert!(collector.entered.load(Ordering::Relaxed) >= 2);
}
