//! The duration of a run, and its limit.

/// A sentence for a report's page. `minutes` is what a run with its default options has.
pub(crate) fn duration(seconds: Option<f64>, minutes: f64) -> String {
    let Some(seconds) = seconds else {
        return "How long the run took was not recorded.".to_owned();
    };
    let taken = seconds / 60.0;
    let verdict = match taken <= minutes {
        true => format!("it has {minutes:.0}"),
        false => format!("**that is more than the {minutes:.0} that it has**"),
    };
    format!(
        "The run took {taken:.1} minutes ({seconds:.0} s), what was built before it aside; {verdict}."
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_that_takes_too_long_is_named() {
        for (seconds, verdict) in
            [(900.0, "it has 15."), (901.0, "more than the 15 that it has**.")]
        {
            let text = duration(Some(seconds), 15.0);
            assert!(text.starts_with("The run took 15.0 minutes (90"), "{text}");
            assert!(text.ends_with(verdict), "{text}");
        }
        assert!(duration(None, 15.0).ends_with("not recorded."));
    }
}
