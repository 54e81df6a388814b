// A value has one type: what is written by one handle, which asks for less, would be read by another.
use thalweg::prelude::*;

fn longer(value: Value<for<'a> fn(&'a str)>) -> Value<fn(&'static str)> {
    value
}

fn guard(value: LentValue<for<'a> fn(&'a str)>) -> LentValue<fn(&'static str)> {
    value
}

fn main() {}
