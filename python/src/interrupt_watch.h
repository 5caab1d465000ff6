// Ctrl-C during a call that a framework makes from a thread of its own, where Python handles no
// signals.
#ifndef DIFFMJ_PYTHON_INTERRUPT_WATCH_H_
#define DIFFMJ_PYTHON_INTERRUPT_WATCH_H_

namespace diffmj::python {

// While one exists, SIGINT is counted before Python's handler gets it. Python's handler stays
// responsible: it raises KeyboardInterrupt in the main thread when that runs again.
class InterruptWatch {
 public:
  InterruptWatch();
  ~InterruptWatch();
  InterruptWatch(const InterruptWatch&) = delete;
  InterruptWatch& operator=(const InterruptWatch&) = delete;

  // Did SIGINT arrive, and is it Python's default handler, which raises KeyboardInterrupt, that
  // gets it? Takes Python's lock, but only once a signal arrived.
  bool interrupted();

 private:
  int seen_;
  bool stopped_ = false;
};

}  // namespace diffmj::python

#endif  // DIFFMJ_PYTHON_INTERRUPT_WATCH_H_
