//! Sending what is due.

use super::driver::Driver;
use super::lane::{Kind, Link};
use super::link::{Written, prepare};
use fathom_core::gaps::GapPlan;
use fathom_core::sample::Flags;
use fathom_core::schedule::Schedule;
use fathom_os::clock::{mono_ns, utc_ns};
use std::io;

impl Driver<'_> {
    /// Sends what is due on a lane, as far as its connection takes it, and arms its timer for the next.
    pub(super) fn pump(&mut self, i: usize) {
        if let Err((at, e)) = self.send_due(i) {
            self.close_by(i, at, &e);
        }
    }

    /// As [`Driver::pump`], but leaves a connection open that cannot be written to: when that was, and why.
    pub(super) fn send_due(&mut self, i: usize) -> Result<(), (u64, io::Error)> {
        loop {
            let now = mono_ns();
            let load_flags = self.load_flags();
            let (lane, pen) = (&mut self.lanes[i], &mut self.pen);
            let (Link::Open(open), Some(schedule)) = (&mut lane.link, &mut lane.schedule) else {
                return Ok(());
            };
            if open.blocked || open.stream.is_full() {
                return Ok(());
            }
            if open.sending.is_none()
                && let Some(skipped) = schedule.skip_overdue(now)
            {
                self.skipped(i, now, skipped, "late");
                continue;
            }
            let begun = open.sending;
            if begun.is_none() && schedule.next_due_ns().is_none_or(|due| due > now) {
                break;
            }
            if begun.is_none()
                && let Some(size) = lane.sizes.current()
            {
                open.stream.set_size(size);
            }
            let (seq, offset) = begun.unwrap_or((open.stream.next_seq(), 0));
            let prepared = if begun.is_none() { prepare(&open.stream, seq, pen) } else { 0 };
            let sent_utc_ns = if open.stamped && begun.is_none() { Some(utc_ns()) } else { None };
            let sent_ns = mono_ns();
            if self.config.stamp.is_some() && begun.is_none() {
                open.stream.stamp_at(self.clock.utc_of(sent_ns), self.clock_error_ns, pen);
            }
            match open.socket.write_message(&open.stream, seq, offset, pen, prepared) {
                Ok(Written::Whole) => open.sending = None,
                Ok(Written::UpTo(offset)) => (open.sending, open.blocked) = (Some((seq, offset)), true),
                Ok(Written::Nothing) => {
                    open.blocked = true;
                    return Ok(());
                }
                Err(e) => return Err((sent_ns, e)),
            }
            if begun.is_some() {
                continue;
            }
            let Some(due) = schedule.take(now) else { break };
            lane.sizes.advance();
            // What follows a handshake follows no silence of the plan.
            let warm_up = lane.warm_up_left > 0 || lane.gaps.as_ref().is_some_and(GapPlan::is_opening);
            lane.warm_up_left = lane.warm_up_left.saturating_sub(1);
            let flags = if warm_up { Flags::WARM_UP } else { Flags::default() };
            open.stream.sent(due, sent_ns, flags | load_flags);
            if let Some(utc_ns) = sent_utc_ns {
                open.stream.sent_at_utc(utc_ns);
                // While the echo is under way, this costs the round trip nothing. A stamp that is here already (most
                // drivers take a message within the send) also wakes nobody any more.
                open.socket.take_send_stamps(&mut open.stream);
            }
            let path = lane.path;
            if lane.armed[Kind::Watch as usize].is_none() {
                let at = sent_ns + self.stall_threshold_ns(path);
                self.arm(i, Kind::Watch, at);
            }
        }
        self.arm_next(i);
        Ok(())
    }

    fn arm_next(&mut self, i: usize) {
        let lane = &mut self.lanes[i];
        let due = lane.schedule.as_ref().and_then(Schedule::next_due_ns);
        if let Some(due) = due {
            self.arm(i, Kind::Due, due);
        } else if lane.is_over() {
            self.lane_over(i);
        }
    }
}
