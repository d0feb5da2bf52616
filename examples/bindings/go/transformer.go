// Package transformer translates text on the CPU, without a network, with the models of transformer.h.
// The package contains the library, which cgo compiles.
//
// A text may have any length. Its labels, quotation marks and brackets, and what is in the target
// language, stay as they are: the translation is what the program translate writes for the text.
// [Options.Plain] switches that off.
//
// Any number of goroutines may share a [Model]. A [Translator] and its [Stream] are for one goroutine
// at a time; calls by several goroutines wait for each other.
package transformer

/*
#cgo CFLAGS: -std=gnu99 -O2 -I${SRCDIR}/c
#cgo LDFLAGS: -lm
#cgo !windows LDFLAGS: -pthread
#include <stdlib.h>
#include "binding.h"
*/
import "C"

import (
	"errors"
	"io"
	"runtime"
	"sort"
	"strings"
	"sync"
	"unsafe"
)

// ErrClosed is the error of calls after Close.
var ErrClosed = errors.New("transformer: it is closed")

// Error is an error of the library.
type Error struct {
	// Status is the kind of failure: "IO" if a file cannot be read, "FORMAT" if it is no model, "UTF8",
	// "TOO_LONG", "ARGUMENT" for an option, and the other statuses of transformer.h without TFM_E_.
	Status string
	// Message says what is wrong, in words.
	Message string
}

func (e *Error) Error() string { return e.Message }

func newError(status C.int32_t, message string) error {
	return &Error{C.GoString(C.binding_status_name(status)), message}
}

func check(status C.tfm_status, err *C.tfm_error) error {
	if status == C.TFM_OK {
		return nil
	}
	return newError(C.int32_t(status), C.GoString(&err.text[0]))
}

// Model is a loaded model. It never changes, so any number of goroutines may share it.
type Model struct {
	mutex sync.Mutex
	model *C.binding_model // nil: closed
}

// Open loads a model from a file.
func Open(path string) (*Model, error) {
	var model *C.binding_model
	var err C.tfm_error
	if strings.IndexByte(path, 0) >= 0 {
		return nil, newError(C.TFM_E_ARGUMENT, "the path has a zero byte")
	}
	name := C.CString(path)
	defer C.free(unsafe.Pointer(name))
	return newModel(check(C.binding_model_open(&model, name, &err), &err), model)
}

// Read loads a model from the bytes of a file, which are copied: Open takes less memory.
func Read(data []byte) (*Model, error) {
	var model *C.binding_model
	var err C.tfm_error
	data = append(data[:len(data):len(data)], 0) // so that there is a first byte
	status := C.binding_model_read(&model, unsafe.Pointer(&data[0]), C.size_t(len(data)-1), &err)
	return newModel(check(status, &err), model)
}

func newModel(err error, model *C.binding_model) (*Model, error) {
	if err != nil {
		return nil, err
	}
	m := &Model{model: model}
	runtime.SetFinalizer(m, (*Model).Close)
	return m, nil
}

// Close frees the model as soon as its translators are closed. Calling it again does nothing. A model
// that nobody uses any more is closed by the garbage collector, which does not know how large it is.
func (m *Model) Close() error {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	C.binding_model_release(m.model)
	m.model = nil
	return nil
}

// Options say how a translator translates. All zero: it decodes as the model file says, in one thread.
type Options struct {
	Threads        int    // that translate, at most 64
	Beam           int    // hypotheses of the beam search; 1 is greedy
	Memory         int64  // the most bytes that all threads together may take, without the model
	Plain          bool   // gives each text to the model as it is, see the package
	SourceLanguage string // of a model that has several, as its file names them
	TargetLanguage string
	Sentences      string // how a model reads a text: "split" or "whole". The model file says what is right
	// More has other options by the names in binding.c, for instance "length_penalty".
	More map[string]float64
}

// Translator translates texts with one model. Its threads and memory stay for the next call.
type Translator struct {
	mutex      sync.Mutex
	translator *C.binding_translator // nil: closed
	stream     *Stream               // the last one
}

// NewTranslator makes a translator. It keeps the model, which may be closed before it.
func (m *Model) NewTranslator(options Options) (*Translator, error) {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	if m.model == nil {
		return nil, ErrClosed
	}
	t := &Translator{}
	var err C.tfm_error
	if failure := check(C.binding_translator_create(&t.translator, m.model, &err), &err); failure != nil {
		return nil, failure
	}
	if failure := t.set(options); failure != nil {
		C.binding_translator_release(t.translator)
		return nil, failure
	}
	runtime.SetFinalizer(t, (*Translator).Close)
	return t, nil
}

// set gives the library all options that are not zero.
func (t *Translator) set(options Options) error {
	numbers := map[string]float64{"threads": float64(options.Threads), "beam": float64(options.Beam), "memory": float64(options.Memory)}
	if options.Plain {
		numbers["plain"] = 1
	}
	for name, value := range numbers {
		if value == 0 {
			delete(numbers, name)
		}
	}
	for name, value := range options.More {
		numbers[name] = value
	}
	names := make([]string, 0, len(numbers))
	for name := range numbers {
		names = append(names, name)
	}
	sort.Strings(names) // so that always the same one of several wrong options is named
	var err C.tfm_error
	for _, name := range names {
		key := C.CString(name)
		status := C.binding_translator_number(t.translator, key, C.double(numbers[name]), &err)
		C.free(unsafe.Pointer(key))
		if failure := check(status, &err); failure != nil {
			return failure
		}
	}
	for _, text := range [][2]string{{"source_language", options.SourceLanguage}, {"target_language", options.TargetLanguage}, {"sentences", options.Sentences}} {
		if text[1] == "" {
			continue
		}
		key, value := C.CString(text[0]), C.CString(text[1])
		status := C.binding_translator_text(t.translator, key, value, &err)
		C.free(unsafe.Pointer(key))
		C.free(unsafe.Pointer(value))
		if failure := check(status, &err); failure != nil {
			return failure
		}
	}
	return check(C.binding_translator_check(t.translator, &err), &err)
}

// Close frees the translator, and ends its stream. Calling it again does nothing.
func (t *Translator) Close() error {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	if t.stream != nil {
		t.stream.end()
	}
	C.binding_translator_release(t.translator)
	t.translator, t.stream = nil, nil
	return nil
}

// Translation is the translation of a text.
type Translation struct {
	Text      string
	Err       error // why the text was not translated, or nil
	Sentences int64 // sentences that the model translated
	Cut       int64 // sentences of which only a part is translated, because they or their translations are too long
	Left      int64 // sentences that stay as they are: the model cannot read them, or they are in the target language
}

// Translate translates one text.
func (t *Translator) Translate(text string) (string, error) {
	all, err := t.TranslateAll([]string{text})
	if err != nil {
		return "", err
	}
	return all[0].Text, all[0].Err
}

// TranslateAll translates texts together, which is faster than one after the other. A text that fails
// has an error in its translation, and the others go on.
func (t *Translator) TranslateAll(texts []string) ([]Translation, error) {
	all, i := make([]Translation, 0, len(texts)), 0
	stream := t.Stream(func() (string, error) {
		if i == len(texts) {
			return "", io.EOF
		}
		i++
		return texts[i-1], nil
	})
	defer stream.Close()
	for stream.Next() {
		all = append(all, stream.Translation())
	}
	return all, stream.Err()
}

// Stream has translations as they come. Use it like a bufio.Scanner:
//
//	stream := translator.Stream(next)
//	defer stream.Close()
//	for stream.Next() {
//		fmt.Println(stream.Translation().Text)
//	}
//	err := stream.Err()
type Stream struct {
	translator *Translator
	run        *C.binding_run // nil: it has ended
	next       func() (string, error)
	made       Translation
	err        error
}

// Stream translates the texts that next returns, until next returns an error; io.EOF says that there are
// no more. next is called by the goroutine that calls [Stream.Next]. Results come in the order of the
// texts, as soon as they are known. The translator reads ahead by some batches (option "max_batch"), so
// texts without end take bounded memory. A translator has one stream at a time.
func (t *Translator) Stream(next func() (string, error)) *Stream {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	s := &Stream{translator: t, next: next}
	if t.translator == nil {
		s.err = ErrClosed
		return s
	}
	var err C.tfm_error
	s.err = check(C.binding_run_start(&s.run, t.translator, &err), &err)
	if s.err == nil {
		t.stream = s
	}
	return s
}

// Next waits for the next translation. It returns false at the end, and after an error, which Err returns.
func (s *Stream) Next() bool {
	var result C.binding_result
	var err C.tfm_error
	for {
		s.translator.mutex.Lock()
		if s.run == nil {
			s.translator.mutex.Unlock()
			return false
		}
		event := C.binding_run_next(s.run, &result, &err)
		if event == C.BINDING_HAS_RESULT {
			text := string(unsafe.Slice((*byte)(unsafe.Pointer(result.text)), result.size))
			s.made = Translation{Text: text, Sentences: int64(result.sentences), Cut: int64(result.cut), Left: int64(result.left)}
			if result.status != 0 {
				s.made.Text, s.made.Err = "", newError(C.int32_t(result.status), text)
			}
		} else if event != C.BINDING_NEEDS_TEXT {
			s.end()
			if event == C.BINDING_FAILED {
				s.err = check(err.status, &err)
			}
		}
		s.translator.mutex.Unlock() // next may call the translator, and then gets an error instead of a deadlock
		if event != C.BINDING_NEEDS_TEXT {
			return event == C.BINDING_HAS_RESULT
		}
		text, failure := s.next()
		if failure != nil && failure != io.EOF {
			s.err = failure
		}
		s.give(text, failure == nil)
	}
}

// give gives the run a text, or says that there are no more.
func (s *Stream) give(text string, more bool) {
	s.translator.mutex.Lock()
	defer s.translator.mutex.Unlock()
	var err C.tfm_error
	var data *C.char
	if s.run == nil { // next has closed the stream
		return
	}
	if more {
		bytes := append([]byte(text), 0) // so that there is a first byte
		data = (*C.char)(unsafe.Pointer(&bytes[0]))
	}
	if failure := check(C.binding_run_give(s.run, data, C.size_t(len(text)), &err), &err); failure != nil {
		s.end()
		s.err = failure
	}
}

// Translation returns what Next has found.
func (s *Stream) Translation() Translation { return s.made }

// Err returns why the stream has ended early, or nil. If next failed, the translations of the texts before
// it have come.
func (s *Stream) Err() error { return s.err }

// Close ends the stream. It may be called at any time, and again.
func (s *Stream) Close() error {
	s.translator.mutex.Lock()
	defer s.translator.mutex.Unlock()
	s.end()
	return nil
}

func (s *Stream) end() {
	C.binding_run_release(s.run)
	s.run = nil
	if s.translator.stream == s { // else neither would be garbage: a translator has a finalizer
		s.translator.stream = nil
	}
}
