//! Thalweg: a dataflow task-graph runtime.
