//! `MPI_Conn_restart`, as the library has it: the leaders choose a line, and every process goes on from its image.

use crate::disk::End;
use crate::plant::Plant;
use crate::proc::{Mine, Phase, Proc};
use crate::program::Program;
use crate::world::World;
use base::ProcId;
use checkpoint::{Choice, Job, Known, LineId, Old};
use std::collections::BTreeSet;

impl World {
    /// `MPI_Conn_restart` begins: the process looks for its images.
    pub(crate) fn find(&mut self, at: usize) {
        let proc = &mut self.procs[at];
        let (job, disk) = (&self.plan.jobs[proc.job], &self.disks[proc.job]);
        proc.process.track(proc.own, job.name, job.size);
        for line in disk.lines() {
            if let Some(image) = disk.image(&line, proc.rank) {
                proc.images.push((image, line.2 == End::Complete));
            }
        }
        let mine = proc.images.iter().map(|(image, complete)| {
            (Old { id: image.head.line, jobs: image.head.jobs.clone(), complete: *complete }, image.head.serial)
        });
        self.lives[proc.job].mine[proc.rank as usize] = Some(mine.collect());
        proc.phase = Phase::Choosing;
    }

    /// The leader's part of a restart.
    pub(crate) fn lead(&mut self, at: usize) -> Result<(), String> {
        let job = self.procs[at].job;
        if self.lives[job].known.is_none() {
            let Some(all) = self.lives[job].mine.iter().cloned().collect::<Option<Vec<_>>>() else { return Ok(()) };
            let lines: Vec<Mine> = all[0]
                .iter()
                .filter(|(line, _)| all.iter().all(|of| of.iter().any(|(other, _)| other.id == line.id)))
                .cloned()
                .collect();
            if lines.is_empty() && all.iter().flatten().any(|(line, _)| line.complete) {
                return Err("lost: a complete line has no images".into());
            }
            let of = &self.plan.jobs[job];
            let known = Known {
                version: 1,
                name: of.name.to_owned(),
                size: of.size,
                runs: false,
                lines: lines.iter().map(|(line, _)| line.clone()).collect(),
            };
            self.lives[job].lines = lines;
            self.lives[job].known = Some(known.clone());
            let Proc { process, side, own, .. } = &mut self.procs[at];
            process.tell_known(side, *own, known, &[]);
            return Ok(());
        }
        let Some(known) = self.lives[job].known.clone() else { return Ok(()) };
        if self.lives[job].chosen.is_none() {
            let proc = &mut self.procs[at];
            match proc.process.choice(proc.own, &known) {
                Some(Choice::From(line)) => self.lives[job].chosen = Some(Some(known.lines[line].id)),
                Some(Choice::Anew) => self.lives[job].chosen = Some(None),
                Some(Choice::Lacks(name, runs)) => {
                    return Err(format!("lost: '{name}' lacks a complete line ({runs})"));
                }
                Some(Choice::Wait(_)) | None => self.look_for_others(at, &known),
            }
            if let Some(chosen) = self.lives[job].chosen {
                self.judge_choice(job, chosen)?;
            }
            return Ok(());
        }
        // All leaders that this one is to meet have come.
        let own = self.lives[job].chosen;
        let neighbours: BTreeSet<usize> = self.procs[at].views.iter().map(|view| view.job).collect();
        if neighbours.iter().all(|other| self.lives[*other].chosen.is_some()) {
            if neighbours.iter().any(|other| self.lives[*other].chosen != own) {
                return Err("the jobs go on from different lines".into());
            }
            self.lives[job].has_met = true;
        }
        Ok(())
    }

    fn look_for_others(&mut self, at: usize, known: &Known) {
        let job = self.procs[at].job;
        let of_lines = self.lives[job].lines.iter().filter_map(|(line, _)| self.procs[at].image(line.id));
        let neighbours: BTreeSet<String> =
            of_lines.flat_map(|image| image.remotes.iter().map(|remote| remote.name.clone())).collect();
        for name in neighbours {
            let other = self.plan.jobs.iter().position(|of| of.name == name).expect("a job of this run");
            let incarnation = self.lives[other].incarnation;
            let leader = ProcId { incarnation, rank: 0 };
            let Some(place) = self.procs.iter().position(|proc| proc.own == leader) else { continue };
            // A name can be looked up when its job has begun, at a time of its own.
            if self.lives[job].reached.contains_key(&name) || self.rng.one_in(3) {
                continue;
            }
            self.lives[job].reached.insert(name, incarnation);
            let Proc { process, side, own, .. } = &mut self.procs[at];
            side.peer(leader, place);
            process.tell_known(side, *own, known.clone(), &[leader]);
        }
        if self.rng.one_in(8) {
            let Proc { process, side, own, .. } = &mut self.procs[at];
            process.tell_again(side, *own);
        }
    }

    /// No line that all processes have written is lost.
    fn judge_choice(&self, job: usize, chosen: Option<LineId>) -> Result<(), String> {
        let Some((_, newest)) = self.whole else { return Ok(()) };
        let Some(id) = chosen else { return Err(format!("lost: all had written {newest}, and it begins anew")) };
        let serial =
            |of: LineId| self.lives[job].lines.iter().find(|(line, _)| line.id == of).map(|(_, serial)| *serial);
        match (serial(newest), serial(id)) {
            (Some(whole), Some(serial)) if whole < serial || id == newest => Ok(()),
            _ => Err(format!("lost: all had written {newest}, and it goes on from {id}")),
        }
    }

    fn place_of(&self, job: usize, rank: u32) -> (ProcId, usize) {
        let own = ProcId { incarnation: self.lives[job].incarnation, rank };
        (own, self.procs.iter().position(|proc| proc.own == own).expect("all were started"))
    }

    pub(crate) fn open(&mut self, at: usize) -> Result<(), String> {
        let views = self.procs[at].views.clone();
        let mut opened = Vec::new();
        for view in &views {
            let members: Vec<_> = view.members.iter().map(|rank| self.place_of(view.job, *rank)).collect();
            let proc = &mut self.procs[at];
            let ctx = proc.side.open(view.context, view.rank, &members);
            proc.ctxs.push(ctx);
            opened.push((view.context, ctx, view.members.clone()));
        }
        let proc = &mut self.procs[at];
        let Some(id) = self.lives[proc.job].chosen.flatten() else {
            proc.program =
                Some(Program::new(&self.plan, (proc.job, proc.rank), None, proc.ctxs.clone(), &mut proc.side));
            proc.phase = Phase::Running;
            return Ok(());
        };
        let image = proc.image(id).cloned().ok_or("the chosen line is not there")?;
        if image.inters.iter().map(|inter| (inter.context, &inter.members)).ne(opened.iter().map(|of| (of.0, &of.2))) {
            return Err("an image has other inter-communicators".into());
        }
        proc.serial = image.head.serial;
        proc.process.number_cuts_from(proc.own, image.head.serial);
        for (place, remote) in (0..).zip(&image.remotes) {
            let job = self.plan.jobs.iter().position(|of| of.name == remote.name).expect("a job of this run");
            let other = self.lives[job].incarnation;
            let Proc { process, side, own, .. } = &mut *proc;
            let its = image.inters.iter().zip(&opened).filter(|(inter, _)| inter.remote == place);
            let its = its.map(|(_, opened)| opened.clone()).collect();
            process.begin_resume(side, *own, other, remote.of.clone(), its);
        }
        proc.phase = Phase::Resuming;
        Ok(())
    }

    pub(crate) fn resume(&mut self, at: usize) -> Result<(), String> {
        let proc = &mut self.procs[at];
        if !proc.process.untold(proc.own).is_empty() || proc.side.awaits_images() {
            return Ok(());
        }
        let life = &self.lives[proc.job];
        let image =
            life.chosen.flatten().and_then(|id| proc.image(id)).cloned().ok_or("the chosen line is not there")?;
        let job_of = |name: &str| self.plan.jobs.iter().position(|of| of.name == name).expect("a job of this run");
        let others: Vec<Job> =
            image.remotes.iter().map(|remote| self.lives[job_of(&remote.name)].incarnation).collect();
        let places: Vec<_> = image
            .inters
            .iter()
            .zip(&proc.ctxs)
            .map(|(inter, ctx)| (inter.remote, inter.context, *ctx, inter.members.clone()))
            .collect();
        let outcomes = if self.plant == Plant::NotReplayed { Default::default() } else { image.outcomes.clone() };
        let Proc { process, side, own, .. } = &mut *proc;
        process.begin_replay(side, *own, &image.head.jobs, outcomes, &others, &places);
        proc.phase = Phase::Ready;
        self.lives[self.procs[at].job].ready += 1;
        Ok(())
    }

    pub(crate) fn go_on(&mut self, at: usize) -> Result<(), String> {
        let proc = &mut self.procs[at];
        let life = &self.lives[proc.job];
        if life.ready < self.plan.jobs[proc.job].size {
            return Ok(());
        }
        let image = life.chosen.flatten().and_then(|id| proc.image(id)).ok_or("the chosen line is not there")?;
        let step: u32 = image.head.label.strip_prefix("step-").and_then(|n| n.parse().ok()).ok_or("the label")?;
        let state = self.saved.get(&(proc.job, proc.rank, step)).cloned().ok_or("the program has no such file")?;
        proc.program =
            Some(Program::new(&self.plan, (proc.job, proc.rank), Some(state), proc.ctxs.clone(), &mut proc.side));
        proc.phase = Phase::Running;
        self.figures.restarts += u64::from(at == 0);
        Ok(())
    }
}
