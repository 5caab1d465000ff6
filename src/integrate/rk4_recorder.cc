#include "integrate/rk4_recorder.h"

#include <algorithm>
#include <new>

#include "stages/position/collision.h"
#include "stages/surrogate_field.h"

namespace diffmj {

bool rk4_is_recordable(const StageModel& impl) {
  const mjModel* m = impl.mj();
  return m->opt.integrator == mjINT_RK4 && impl.differentiation.of_stages && !cfd_forward(impl) &&
         !(m->opt.disableflags & mjDSBL_ACTUATION);
}

Rk4Recorder::Rk4Recorder(const mjModel* m, int nstep, size_t most, StageRecords& records)
    : m_(m),
      tendons_(m),
      most_(most),
      records_(records),
      expected_(kRk4Evaluations * static_cast<size_t>(nstep)),
      hook_(&Rk4Recorder::look, this) {
  records.clear();
  const auto nv = static_cast<size_t>(m->nv), na = static_cast<size_t>(m->na);
  records.qacc.reserve(expected_ * nv);
  records.act_dot.reserve(expected_ * na);
  records.nefc.reserve(expected_);
  records.tendon_numbers.reserve(expected_ * tendons_.numbers);
  records.tendon_objects.reserve(expected_ * tendons_.objects);
  records.contact_begin.reserve(expected_ + 1);
  records.contact_begin.push_back(0);
}

void Rk4Recorder::look(void* self, const mjData* d) { static_cast<Rk4Recorder*>(self)->look(d); }

void Rk4Recorder::look(const mjData* d) {
  if (given_up_) return;
  try {
    if (seen_++ > 0) add_rates(d, d->qacc);
    records_.nefc.push_back(d->nefc);
    if (tendons_.numbers > 0) {
      const size_t numbers = records_.tendon_numbers.size(),
                   objects = records_.tendon_objects.size();
      records_.tendon_numbers.resize(numbers + tendons_.numbers);
      records_.tendon_objects.resize(objects + tendons_.objects);
      keep_tendons(m_, d, Vec(records_.tendon_numbers).subspan(numbers),
                   std::span(records_.tendon_objects).subspan(objects));
    }
    const bool first = records_.contacts.empty();
    keep_contacts(d, records_.contacts);
    if (first) {
      // as many in every evaluation to come
      const size_t left = expected_ + 1 - std::min(expected_, records_.contact_begin.size());
      records_.contacts.reserve(std::min(most_, left * records_.contacts.size()));
    }
    records_.contact_begin.push_back(records_.contacts.size());
    if (records_.contacts.size() > most_) give_up();
  } catch (const std::bad_alloc&) {
    give_up();
  }
}

void Rk4Recorder::end(const mjData* d) {
  if (given_up_) return;
  if (seen_ != kRk4Evaluations) {
    give_up();
    return;
  }
  // since MuJoCo 4.0 mj_step leaves the mean of the four in qacc; the last is the next warm start
  add_rates(d, d->qacc_warmstart);
}

void Rk4Recorder::finish(int nstep) {
  if (given_up_) return;
  const size_t rows = kRk4Evaluations * static_cast<size_t>(nstep);
  records_.qacc.resize(rows * static_cast<size_t>(m_->nv));
  records_.act_dot.resize(rows * static_cast<size_t>(m_->na));
  records_.nefc.resize(rows);
  records_.tendon_numbers.resize(rows * tendons_.numbers);
  records_.tendon_objects.resize(rows * tendons_.objects);
  records_.contact_begin.resize(rows + 1);
  records_.contacts.resize(records_.contact_begin.back());
}

void Rk4Recorder::add_rates(const mjData* d, const mjtNum* qacc) {
  records_.qacc.insert(records_.qacc.end(), qacc, qacc + m_->nv);
  records_.act_dot.insert(records_.act_dot.end(), d->act_dot, d->act_dot + m_->na);
}

void Rk4Recorder::give_up() {
  records_ = {};
  given_up_ = true;
}

}  // namespace diffmj
