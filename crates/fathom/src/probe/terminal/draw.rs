//! One picture of the run, drawn from copies.

use super::copy::{Detail, Glance, Row};
use super::inks::{Inks, alarm, rule};
use super::names::beginning;
use super::plan::{ALL_FIGURES, HELP, Plan};
use super::state::State;
use super::view::View;
use super::{Moment, bars, strip, table};
use crate::probe::live_state::LiveStates;
use fathom_core::summary::clock_time;
use fathom_core::text;
use fathom_core::units::duration_compact as duration;
use fathom_core::units::narrow::time_or_dash;
use ratatui::Frame;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Modifier;
use ratatui::text::{Line, Span};
use ratatui::widgets::{Paragraph, Widget, Wrap};

/// Everything one picture needs.
pub(super) struct Picture<'a> {
    pub(super) labels: &'a [&'a str],
    pub(super) glance: &'a Glance,
    pub(super) view: &'a View,
    pub(super) plan: &'a Plan,
    pub(super) rows: Vec<Row>,
    pub(super) detail: Detail,
    pub(super) moment: Moment,
    pub(super) coloured: bool,
}

impl<'a> Picture<'a> {
    /// Copies out of the live states what is to be seen of them.
    pub(super) fn of(
        live: &LiveStates,
        moment: Moment,
        labels: &'a [&'a str],
        glance: &'a Glance,
        view: &'a View,
        plan: &'a Plan,
        coloured: bool,
    ) -> Self {
        let rows = plan.rows.clone().map(|row| Row::of(live, view.path(row))).collect();
        let detail = Detail::of(live, view, plan, moment.mono_ns);
        Self { labels, glance, view, plan, rows, detail, moment, coloured }
    }

    /// Seconds per column of a strip that shows everything.
    pub(super) fn fit_s(&self) -> Option<i64> {
        strip::fit_s(self.plan.strip, self.detail.first_s, self.moment.now_s)
    }

    pub(super) fn draw(&self, frame: &mut Frame<'_>) {
        // The terminal may have shrunk since the plan was made; the next picture will fit.
        let area = frame.area();
        let within = |part: Rect| part.intersection(area);
        let buf = frame.buffer_mut();
        let inks = Inks::new(self.coloured);
        let (plan, detail) = (self.plan, &self.detail);
        self.header(buf, within(plan.header), inks);
        self.alarms(buf, within(plan.alarms), inks);
        let widest = self.glance.remote_width;
        table::draw(buf, within(plan.table), self.labels, &self.rows, self.view, widest, inks);
        self.detail(buf, within(plan.detail), inks);
        strip::draw(buf, within(plan.strip), &detail.strip, self.moment.now_s, self.view.zoom, inks);
        let since = self.glance.since.map(clock_time);
        bars::draw(
            buf,
            within(plan.bars),
            detail.bars.as_ref(),
            &detail.quantiles_ns,
            since.as_deref(),
            inks,
        );
        self.events(buf, within(plan.events), inks);
        if !plan.help.is_empty() {
            Paragraph::new(HELP).wrap(Wrap { trim: true }).style(inks.strong).render(within(plan.help), buf);
        }
    }

    fn header(&self, buf: &mut Buffer, area: Rect, inks: Inks) {
        let of = self.labels.len();
        let recorded = self.glance.recorded;
        let elapsed = duration(self.moment.elapsed.as_secs() * 1_000_000_000);
        let mut left = vec![Span::styled("fathom", inks.strong)];
        if self.view.paused {
            let ink = inks.odd.add_modifier(Modifier::BOLD);
            left.push(Span::styled("  PAUSED, measuring goes on", ink));
        }
        left.push(Span::raw(format!("  {elapsed}")));
        left.push(match (recorded, of) {
            (0, _) => Span::raw("  not recording"),
            (1, 1) => Span::raw("  recording"),
            _ => Span::raw(format!("  recording {recorded} of {of} paths")),
        });
        if of > 1 {
            let states = &self.glance.states;
            let stalled = states.iter().filter(|s| matches!(s, State::Stalled(..))).count();
            let unconnected = states.iter().filter(|s| **s == State::NotConnected).count();
            for (n, what, ink) in [(stalled, "STALLED", inks.bad), (unconnected, "not connected", inks.odd)] {
                if n > 0 {
                    left.push(Span::styled(format!("  {n} {what}"), ink));
                }
            }
        }
        let sorted = self.view.sort.text().map(|order| format!("  by {order}"));
        let since = self.glance.since.map(|at| format!("  figures since {} UTC", clock_time(at)));
        left.extend(since.into_iter().chain(sorted).map(Span::raw));
        let hints = match self.view.asked {
            0 => ["Ctrl-C ends the run, q too   ? help", "Ctrl-C ends the run, q too", "q ends"],
            1 => ["ending: last echoes; again: at once", "ending; again: at once", "ending"],
            _ => ["ending at once", "ending at once", "ending"],
        };
        let left = Line::from(left);
        let room = usize::from(area.width).saturating_sub(left.width() + 2);
        left.render(area, buf);
        if let Some(hint) = hints.into_iter().find(|hint| hint.len() <= room) {
            let ink = if self.view.asked > 0 { inks.odd.add_modifier(Modifier::BOLD) } else { inks.dim };
            // Only the words are styled: the row is shared with what stands on the left.
            Line::from(Span::styled(hint, ink)).right_aligned().render(area, buf);
        }
    }

    fn alarms(&self, buf: &mut Buffer, area: Rect, inks: Inks) {
        let ink = inks.bad.add_modifier(Modifier::REVERSED);
        let lines: Vec<Line> =
            self.glance.errors.iter().map(|error| Line::raw(alarm(self.labels, error))).collect();
        Paragraph::new(lines).wrap(Wrap { trim: true }).style(ink).render(area, buf);
    }

    fn detail(&self, buf: &mut Buffer, area: Rect, inks: Inks) {
        let Some(label) = self.labels.get(self.view.selected) else { return };
        if area.is_empty() {
            return;
        }
        let d = &self.detail;
        let remote = d.remote.as_ref().map_or_else(String::new, |remote| format!("  {remote}"));
        let which = match self.labels.len() {
            1 => String::new(),
            of => format!("  (path {} of {of})", self.view.selected + 1),
        };
        rule(buf, area, &format!("{label}{remote}{which}"), inks);
        let mut facts = vec![
            text::count(d.samples, "sample"),
            format!("{} unanswered", d.unanswered),
            format!("{} late", d.late),
        ];
        let odd = [(d.corrupt, "corrupt"), (d.skipped, "due but not sent")];
        facts.extend(odd.into_iter().filter(|(n, _)| *n > 0).map(|(n, what)| format!("{n} {what}")));
        facts.extend(d.outage.clone());
        let open = text::count(d.open.into(), "connection");
        facts.push(match d.connections {
            n if n > u64::from(d.open) => format!("{open} open of {n} so far"),
            _ => format!("{open} open"),
        });
        let mut figures = vec![];
        if area.width < ALL_FIGURES {
            // The tail first: where even this line is too short, the rest has to go.
            let [_, p95, p99, p99_9] = d.quantiles_ns;
            let told = [("p99", p99), ("p99.9", p99_9), ("max", d.max_ns), ("p95", p95)];
            figures.extend(told.map(|(name, ns)| format!("{name} {}", time_or_dash(ns, 3))));
        }
        let kept = match (&d.recording, d.recording_stopped) {
            (Some(dir), false) => format!("recording into {}", dir.display()),
            (Some(dir), true) => format!("recording stopped; what was written is in {}", dir.display()),
            (None, _) => "not recorded".to_owned(),
        };
        let told = [
            joined(&facts, area.width),
            joined(&figures, area.width),
            beginning(&kept, usize::from(area.width)),
        ];
        for (row, text) in area.rows().skip(1).zip(told.into_iter().filter(|text| !text.is_empty())) {
            Line::raw(text).render(row, buf);
        }
    }

    fn events(&self, buf: &mut Buffer, area: Rect, inks: Inks) {
        if area.is_empty() {
            return;
        }
        rule(buf, area, "events (UTC), newest last", inks);
        for (row, event) in area.rows().skip(1).zip(&self.detail.events) {
            Line::raw(beginning(event, usize::from(area.width))).render(row, buf);
        }
    }
}

/// As many of the parts, in their order, as a line of this width has room for whole.
fn joined(parts: &[String], width: u16) -> String {
    let mut line = String::new();
    for part in parts {
        let comma = if line.is_empty() { "" } else { ", " };
        if Span::raw(&line).width() + comma.len() + Span::raw(part).width() > usize::from(width) {
            break;
        }
        line.push_str(comma);
        line.push_str(part);
    }
    line
}
