// A value has one type: a handle with a weaker type could write a value that another handle then reads.
use thalweg::prelude::*;

fn longer(value: Value<for<'a> fn(&'a str)>) -> Value<fn(&'static str)> {
    value
}

fn guard(value: LentValue<for<'a> fn(&'a str)>) -> LentValue<fn(&'static str)> {
    value
}

fn main() {}
