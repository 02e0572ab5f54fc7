//! Events: what begins, what goes on and what ends by itself.

use serde_json::Value;

use super::host::Redirect;
use super::queue::{Job, Phase};
use super::{NodeId, Output, PathId, World};
use crate::event::{Direction, Event, RedirectEnd};
use crate::truth::{Truth, What};

/// A live migration under way.
#[derive(Debug, Clone, Copy)]
pub(super) struct Migration {
    host: u32,
    brownout_ns: u64,
    brownout_added_ns: u64,
    freeze_ns: u64,
    redirect_ns: u64,
    redirect_added_ns: u64,
    then: RedirectEnd,
    frozen_since_ns: u64,
}

const BROWNOUT: &str = "live-migration brownout";
const FREEZE: &str = "live-migration freeze";
const REDIRECT: &str = "live-migration redirect";

/// Which directions.
fn ways(direction: Direction) -> (bool, bool) {
    (direction != Direction::Backward, direction != Direction::Forward)
}

/// Its name for the ground truth.
fn name(event: &Event) -> String {
    match event {
        Event::LiveMigration { .. } => "live-migration".to_owned(),
        Event::HostPause { .. } => "host-pause".to_owned(),
        Event::PathChange { .. } => "path-change".to_owned(),
        Event::LinkCut { .. } => "link-cut".to_owned(),
        Event::Stage { event, .. } => serde_json::to_value(event)
            .ok()
            .and_then(|value| value["what"].as_str().map(str::to_owned))
            .unwrap_or_else(|| "stage".to_owned()),
    }
}

/// Where it happens.
fn place(event: &Event) -> &str {
    match event {
        Event::LiveMigration { host, .. } | Event::HostPause { host, .. } => host,
        Event::PathChange { path, .. } | Event::LinkCut { path, .. } => path,
        Event::Stage { node, .. } => node,
    }
}

impl World {
    /// Whether everything that the event names is there.
    pub(super) fn check(&self, event: &Event) -> Result<(), String> {
        match event {
            Event::LiveMigration { host, .. } | Event::HostPause { host, .. } => {
                self.find_host(host).map(drop)
            }
            Event::PathChange { path, .. } | Event::LinkCut { path, .. } => self.find_path(path).map(drop),
            Event::Stage { node, .. } => self.find_middlebox(node).map(drop),
        }
    }

    fn find_host(&self, name: &str) -> Result<u32, String> {
        self.host(name).map(|host| host.0).ok_or_else(|| format!("there is no host named {name}"))
    }

    fn find_path(&self, label: &str) -> Result<u32, String> {
        let found = self.paths.iter().position(|path| &**path == label);
        found.map(|i| i as u32).ok_or_else(|| format!("there is no path labelled {label}"))
    }

    fn find_middlebox(&self, name: &str) -> Result<u32, String> {
        let found = (self.hosts..self.nodes.len() as u32).find(|&i| &*self.nodes[i as usize].name == name);
        found.ok_or_else(|| format!("there is no middlebox named {name}"))
    }

    fn began(&self, place: &str, event: &str, parameters: Value, out: &mut Output) {
        let what = What::EventBegan { event: event.to_owned(), parameters };
        out.truths.push(Truth { at_ns: self.now_ns, place: place.to_owned(), what });
    }

    fn ended(&self, place: &str, event: &str, out: &mut Output) {
        let what = What::EventEnded { event: event.to_owned() };
        out.truths.push(Truth { at_ns: self.now_ns, place: place.to_owned(), what });
    }

    fn node_label(&self, node: u32) -> String {
        self.node_name(NodeId(node)).to_owned()
    }

    fn after(&mut self, delay_ns: u64, phase: Phase) {
        self.queue.push(self.now_ns.saturating_add(delay_ns), Job::Phase(phase));
    }

    pub(super) fn begin_planned(&mut self, index: u32, out: &mut Output) {
        let event = self.planned[index as usize].1.clone();
        if let Err(reason) = self.begin(&event, out) {
            let what = What::EventRefused { event: name(&event), reason };
            out.truths.push(Truth { at_ns: self.now_ns, place: place(&event).to_owned(), what });
        }
    }

    pub(super) fn begin(&mut self, event: &Event, out: &mut Output) -> Result<(), String> {
        let parameters = serde_json::to_value(event).unwrap_or_default();
        match event {
            Event::LiveMigration {
                host,
                brownout_ns,
                brownout_added_ns,
                freeze_ns,
                redirect_ns,
                redirect_added_ns,
                then,
            } => {
                let migration = Migration {
                    host: self.find_host(host)?,
                    brownout_ns: *brownout_ns,
                    brownout_added_ns: *brownout_added_ns,
                    freeze_ns: *freeze_ns,
                    redirect_ns: *redirect_ns,
                    redirect_added_ns: *redirect_added_ns,
                    then: *then,
                    frozen_since_ns: 0,
                };
                let index = self.migrations.len() as u32;
                self.migrations.push(migration);
                self.began(host, &name(event), parameters, out);
                self.brownout(index, out);
            }
            Event::HostPause { host, duration_ns } => {
                let index = self.find_host(host)?;
                self.began(host, &name(event), parameters, out);
                self.freeze(index);
                self.after(*duration_ns, Phase::PauseEnds { host: index });
            }
            Event::PathChange { path, added_ns, duration_ns } => {
                let index = self.find_path(path)?;
                self.began(path, &name(event), parameters, out);
                self.change_path(index, *added_ns);
                if let Some(duration_ns) = *duration_ns {
                    self.after(duration_ns, Phase::ChangeEnds { path: index, added_ns: *added_ns });
                }
            }
            Event::LinkCut { path, direction, duration_ns } => {
                let index = self.find_path(path)?;
                let (forward, backward) = ways(*direction);
                self.began(path, &name(event), parameters, out);
                self.cut(index, forward, backward, 1);
                if let Some(duration_ns) = *duration_ns {
                    self.after(duration_ns, Phase::CutEnds { path: index, forward, backward });
                }
            }
            Event::Stage { node, event: stage_event } => {
                let index = self.find_middlebox(node)?;
                let done = self
                    .with_stage(index, |stage, now_ns, context| stage.event(now_ns, stage_event, context));
                let done = done.unwrap_or_else(|| Err(format!("{node} is no middlebox")));
                if done.is_ok() {
                    self.began(node, &name(event), parameters, out);
                }
                self.after_stage(index, out);
                done?;
            }
        }
        Ok(())
    }

    pub(super) fn go_on(&mut self, phase: Phase, out: &mut Output) {
        match phase {
            Phase::PauseEnds { host } => {
                let place = self.node_label(host);
                self.ended(&place, "host-pause", out);
                self.thaw(host, out);
            }
            Phase::ChangeEnds { path, added_ns } => {
                self.change_path(path, added_ns.saturating_neg());
                let place = self.path_name(PathId(path)).to_owned();
                self.ended(&place, "path-change", out);
            }
            Phase::CutEnds { path, forward, backward } => {
                self.cut(path, forward, backward, -1);
                let place = self.path_name(PathId(path)).to_owned();
                self.ended(&place, "link-cut", out);
            }
            Phase::Freeze { migration } => self.migration_freezes(migration, out),
            Phase::Thaw { migration } => self.migration_thaws(migration, out),
            Phase::RedirectEnds { migration } => self.redirect_ends(migration, out),
        }
    }

    /// On the first leg of the path only: the path as a whole becomes longer by so much each way.
    fn change_path(&mut self, path: u32, added_ns: i64) {
        if let Some(leg) = self.legs.iter_mut().find(|leg| leg.path.0 == path) {
            leg.forward.added_ns = leg.forward.added_ns.saturating_add(added_ns);
            leg.backward.added_ns = leg.backward.added_ns.saturating_add(added_ns);
        }
    }

    /// What has entered a leg already still comes out.
    fn cut(&mut self, path: u32, forward: bool, backward: bool, by: i32) {
        for leg in self.legs.iter_mut().filter(|leg| leg.path.0 == path) {
            for (lane, way) in [(&mut leg.forward, forward), (&mut leg.backward, backward)] {
                if way {
                    lane.cuts = lane.cuts.saturating_add_signed(by);
                }
            }
        }
    }

    fn brownout(&mut self, index: u32, out: &mut Output) {
        let migration = self.migrations[index as usize];
        if migration.brownout_ns == 0 {
            self.migration_freezes(index, out);
            return;
        }
        self.host_mut(migration.host).brownout_ns += migration.brownout_added_ns;
        let place = self.node_label(migration.host);
        self.began(&place, BROWNOUT, serde_json::json!({ "added_ns": migration.brownout_added_ns }), out);
        self.after(migration.brownout_ns, Phase::Freeze { migration: index });
    }

    fn migration_freezes(&mut self, index: u32, out: &mut Output) {
        let now_ns = self.now_ns;
        let migration = &mut self.migrations[index as usize];
        migration.frozen_since_ns = now_ns;
        let migration = *migration;
        let place = self.node_label(migration.host);
        if migration.brownout_ns > 0 {
            let host = self.host_mut(migration.host);
            host.brownout_ns = host.brownout_ns.saturating_sub(migration.brownout_added_ns);
            self.ended(&place, BROWNOUT, out);
        }
        self.freeze(migration.host);
        self.began(&place, FREEZE, serde_json::json!({ "duration_ns": migration.freeze_ns }), out);
        self.after(migration.freeze_ns, Phase::Thaw { migration: index });
    }

    fn migration_thaws(&mut self, index: u32, out: &mut Output) {
        let migration = self.migrations[index as usize];
        let place = self.node_label(migration.host);
        self.ended(&place, FREEZE, out);
        self.host_mut(migration.host).redirects.push(Redirect {
            migration: index,
            cutoff_ns: migration.frozen_since_ns,
            added_ns: migration.redirect_added_ns,
            then: migration.then,
            expired: false,
        });
        let parameters =
            serde_json::json!({ "added_ns": migration.redirect_added_ns, "then": migration.then });
        self.began(&place, REDIRECT, parameters, out);
        if migration.redirect_ns == 0 {
            self.redirect_ends(index, out);
        } else {
            self.after(migration.redirect_ns, Phase::RedirectEnds { migration: index });
        }
        self.thaw(migration.host, out);
    }

    fn redirect_ends(&mut self, index: u32, out: &mut Output) {
        let migration = self.migrations[index as usize];
        let host = self.host_mut(migration.host);
        if migration.then == RedirectEnd::Direct {
            host.redirects.retain(|redirect| redirect.migration != index);
            host.join_ways();
        } else if let Some(redirect) = host.redirects.iter_mut().find(|redirect| redirect.migration == index)
        {
            redirect.expired = true;
        }
        let place = self.node_label(migration.host);
        self.ended(&place, REDIRECT, out);
        self.ended(&place, "live-migration", out);
    }
}
