//! Shows the progress of a node: four lines on a terminal, otherwise log lines at intervals, and a status for
//! systemd.

use std::time::Duration;

use godwit_api::{SyncReport, SyncStage};
use indicatif::{MultiProgress, ProgressBar, ProgressStyle};

use crate::service::Service;

/// The lines of a terminal are written again at most this often ...
const SCREEN_INTERVAL: Duration = Duration::from_secs(1);

/// ... and those of the log.
const LOG_INTERVAL: Duration = Duration::from_secs(30);

/// The display of a node.
pub(crate) struct Screen {
    /// Empty where there is no terminal: then progress is logged during the initial download.
    lines: Vec<ProgressBar>,
    next: Duration,
    next_word: Duration,
}

impl Screen {
    /// Nothing is shown yet; `bars` is hidden where there is no terminal.
    pub(crate) fn start(bars: &MultiProgress) -> Self {
        let style = ProgressStyle::with_template("{wide_msg}").expect("the template is valid");
        let line = |_| bars.add(ProgressBar::new(0).with_style(style.clone()));
        let lines: Vec<ProgressBar> = match bars.is_hidden() {
            true => Vec::new(),
            false => (0..4).map(line).collect(),
        };
        let next = if lines.is_empty() { LOG_INTERVAL } else { Duration::ZERO };
        Self { lines, next, next_word: Duration::ZERO }
    }

    /// Shows what is known, if it is time to, and tells the service.
    pub(crate) fn show(&mut self, now: Duration, report: &SyncReport, service: &mut Service) {
        if now >= self.next_word {
            let longest = service.interval().unwrap_or(SCREEN_INTERVAL);
            self.next_word = now + SCREEN_INTERVAL.min(longest);
            let [place, time, ..] = report.lines();
            service.look(now, || format!("{place} {time}"));
        }
        if now < self.next {
            return;
        }
        if self.lines.is_empty() {
            if report.stage != SyncStage::Synced {
                log::info!("Progress: {}", report.lines().join(" "));
            }
            self.next = now + LOG_INTERVAL;
            return;
        }
        for (line, text) in self.lines.iter().zip(report.lines()) {
            line.set_message(text);
        }
        self.next = now + SCREEN_INTERVAL;
    }

    /// Takes the lines from the terminal; whether there is one.
    pub(crate) fn finish(&mut self) -> bool {
        let on_terminal = !self.lines.is_empty();
        for line in self.lines.drain(..) {
            line.finish_and_clear();
        }
        on_terminal
    }
}

#[cfg(test)]
mod tests {
    use indicatif::ProgressDrawTarget;

    use super::*;
    use crate::service::Surroundings;

    #[test]
    fn without_a_terminal_nothing_is_drawn_and_the_log_has_a_line_now_and_then() {
        let bars = MultiProgress::with_draw_target(ProgressDrawTarget::hidden());
        let mut service = Service::new(&Surroundings::default());
        let (mut screen, report) = (Screen::start(&bars), SyncReport::default());
        screen.show(Duration::ZERO, &report, &mut service);
        assert_eq!(screen.next, LOG_INTERVAL, "the first line has something to say");
        screen.show(LOG_INTERVAL, &report, &mut service);
        assert_eq!(screen.next, LOG_INTERVAL * 2);
        assert!(!screen.finish());
    }
}
