// Package @NAME@ runs a model that Infuse compiled: libmodel.a, beside this file, is a part of the program.
package @NAME@

/*
#cgo LDFLAGS: ${SRCDIR}/libmodel.a -lm
#cgo !windows LDFLAGS: -pthread
#include "binding.h"

static inline int @P@_go_call(@PARAMETERS@) {
  const void* inputs[@INPUT_ROOM@] = {0};
  void* outputs[@RESULT_ROOM@] = {0};
@ASSIGNMENTS@
  return @P@_run(context, symbols, inputs, outputs);
}
*/
import "C"

import (
	"context"
	"runtime"
	"sync"
	"unsafe"
)

// Codes of errors.
const (
	OutOfMemory = 1  // there is no memory for a run
	BadData     = 2  // elements of inputs are not what the model takes
	Cancelled   = 3  // the run was cancelled
	BadOptions  = 4  // a context cannot be opened so
	Refused     = 5  // the system does not let the process use tile registers
	BadInput    = -1 // inputs or weights do not fit the model
)

// Error says why something failed.
type Error struct {
	Code int
	Text string
}

func (e *Error) Error() string { return e.Text }

// Inputs are what the model takes. A pointer may be nil: the input then has its default.
type Inputs struct {
@INPUTS@}

// Outputs are what the model gives.
type Outputs struct {
@OUTPUTS@}

// Model has the weights, which any number of sessions share. It is safe to use from several goroutines.
type Model struct {
	lock   sync.Mutex
	loaded unsafe.Pointer
	users  int
	closed bool
}

// Open reads the weights of the model from a file. It needs none where the model has no weights, or where they are a part
// of the library.
func Open(weights string) (*Model, error) {
	path := C.CString(weights)
	defer C.free(unsafe.Pointer(path))
	text := newText()
	return opened(C.@P@_binding_load(path, text.at()), text)
}

// OpenBytes takes the content of such a file, which is copied.
func OpenBytes(weights []byte) (*Model, error) {
	text := newText()
	return opened(C.@P@_binding_copied(pointer(weights), C.int64_t(len(weights)), text.at()), text)
}

func opened(loaded unsafe.Pointer, text message) (*Model, error) {
	if loaded == nil {
		return nil, text.failure(BadInput)
	}
	model := &Model{loaded: loaded, users: 1}
	runtime.SetFinalizer(model, (*Model).Close)
	return model, nil
}

// Close frees the weights when all sessions are closed.
func (m *Model) Close() {
	m.lock.Lock()
	closed := m.closed
	m.closed = true
	m.lock.Unlock()
	if !closed {
		runtime.SetFinalizer(m, nil)
		m.release()
	}
}

func (m *Model) release() {
	m.lock.Lock()
	defer m.lock.Unlock()
	if m.users--; m.users == 0 {
		C.@P@_binding_unload(m.loaded)
		m.loaded = nil
	}
}

// Session makes a context with this many threads; 0: one a processor.
func (m *Model) Session(threads int) (*Session, error) {
	m.lock.Lock()
	defer m.lock.Unlock()
	if m.closed {
		return nil, &Error{BadInput, "the model is closed"}
	}
	text := newText()
	place := (*unsafe.Pointer)(C.calloc(1, C.sizeof_size_t))
	if place == nil {
		return nil, &Error{OutOfMemory, "there is no memory"}
	}
	defer C.free(unsafe.Pointer(place))
	if code := C.@P@_binding_open(m.loaded, C.int(threads), @ID@, place, text.at()); code != 0 {
		return nil, text.failure(int(code))
	}
	m.users++
	session := &Session{model: m, context: *place, frame: make([]int64, @WORDS@+1), text: text}
	runtime.SetFinalizer(session, (*Session).Close)
	return session, nil
}

// Session is a context of a model. It runs one call at a time; other goroutines wait.
type Session struct {
	lock       sync.Mutex
	cancelling sync.Mutex
	model      *Model
	context    unsafe.Pointer
	frame      []int64
	text       message
}

// Close frees the memory of the session, after a run that is under way.
func (s *Session) Close() {
	s.lock.Lock()
	defer s.lock.Unlock()
	s.cancelling.Lock()
	defer s.cancelling.Unlock()
	if s.context == nil {
		return
	}
	runtime.SetFinalizer(s, nil)
	C.@P@_binding_close(s.context)
	s.context = nil
	s.model.release()
}

// Run computes the outputs. An *Error says which input does not fit, or why the run failed.
func (s *Session) Run(in *Inputs) (*Outputs, error) {
	out := new(Outputs)
	if err := s.RunInto(in, out); err != nil {
		return nil, err
	}
	return out, nil
}

// RunInto is Run in the memory of earlier outputs, where it suffices.
func (s *Session) RunInto(in *Inputs, out *Outputs) error {
	s.lock.Lock()
	defer s.lock.Unlock()
	return s.run(in, out)
}

// RunContext is Run that ends before its next step when ctx is done: the error is that of ctx then.
func (s *Session) RunContext(ctx context.Context, in *Inputs) (*Outputs, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	s.lock.Lock()
	defer s.lock.Unlock()
	ended, watched := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(watched)
		select {
		case <-ctx.Done():
			s.Cancel(true)
		case <-ended:
		}
	}()
	out := new(Outputs)
	err := s.run(in, out)
	close(ended)
	<-watched
	if ctx.Err() != nil {
		s.Cancel(false)
		if failure, ok := err.(*Error); ok && failure.Code == Cancelled {
			return nil, ctx.Err()
		}
	}
	if err != nil {
		return nil, err
	}
	return out, nil
}

// Cancel(true) ends the run that is under way, and later ones, with Cancelled, until Cancel(false). Any goroutine may
// call it.
func (s *Session) Cancel(cancelled bool) {
	s.cancelling.Lock()
	defer s.cancelling.Unlock()
	if s.context == nil {
		return
	}
	value := C.int(0)
	if cancelled {
		value = 1
	}
	C.@P@_binding_cancel(s.context, value)
}

func (s *Session) run(in *Inputs, out *Outputs) error {
	if s.context == nil {
		return &Error{BadInput, "the session is closed"}
	}
	frame := (*C.int64_t)(unsafe.Pointer(&s.frame[0]))
@DESCRIBED@
	if C.@P@_binding_sizes(frame, s.text.at()) != 0 {
		return s.text.failure(BadInput)
	}
@RESULTS@
	symbols := (*C.int64_t)(unsafe.Pointer(&s.frame[@SYMBOLS_AT@]))
	if code := C.@P@_go_call(s.context, symbols@ADDRESSES@); code != 0 {
		return &Error{int(code), C.GoString(C.@P@_binding_error(s.context))}
	}
@LATE@
	return nil
}

// Shapes gives the shapes of all inputs for values of the symbols (@SYMBOL_NAMES@).
func Shapes(symbols ...int64) ([][]int64, error) {
	if len(symbols) != @SYMBOLS@ {
		return nil, &Error{BadInput, "the model has @SYMBOLS@ symbols: @SYMBOL_NAMES@"}
	}
	frame := make([]int64, @WORDS@+1)
	copy(frame[@SYMBOLS_AT@:], symbols)
	text := newText()
	if C.@P@_binding_shapes((*C.int64_t)(unsafe.Pointer(&frame[0])), text.at()) != 0 {
		return nil, text.failure(BadInput)
	}
	return [][]int64{
@SHAPES@
	}, nil
}

type message []byte

func newText() message { return make([]byte, C.@P@_BINDING_TEXT) }

func (m message) at() *C.char { return (*C.char)(unsafe.Pointer(&m[0])) }

func (m message) failure(code int) error { return &Error{code, C.GoString(m.at())} }

func take[T any](s *Session, number int, tensor *Tensor[T]) {
	sizes := make([]int64, C.@P@_binding_rank(s.context, C.int(number))+1)
	data := C.@P@_binding_result(s.context, C.int(number), (*C.int64_t)(unsafe.Pointer(&sizes[0])))
	resize(tensor, sizes[:len(sizes)-1])
	if len(tensor.Data) > 0 {
		copy(tensor.Data, unsafe.Slice((*T)(data), len(tensor.Data)))
	}
}
