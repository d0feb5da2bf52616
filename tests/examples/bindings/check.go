// Command check is what tests/examples/bindings.sh asks of the Go package. README.md in examples/bindings
// has a first program.
package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"

	"transformer"
)

func show(name, text string, err error) {
	var failure *transformer.Error
	if errors.As(err, &failure) {
		text = failure.Status + " " + failure.Message
	} else if err != nil {
		text = err.Error()
	}
	fmt.Printf("%s: %s\n", name, text)
}

func must(err error) {
	if err != nil {
		fmt.Println("FAILED", err)
		os.Exit(1)
	}
}

func lines(model *transformer.Model, err error, plain bool) {
	must(err)
	translator, err := model.NewTranslator(transformer.Options{Threads: 2, Plain: plain})
	must(err)
	in, out := bufio.NewReader(os.Stdin), bufio.NewWriter(os.Stdout)
	stream := translator.Stream(func() (string, error) {
		line, err := in.ReadString('\n')
		return strings.TrimSuffix(line, "\n"), err
	})
	for stream.Next() {
		fmt.Fprintln(out, stream.Translation().Text)
	}
	must(stream.Err())
	out.Flush()
}

func checks(path, broken string) {
	model, err := transformer.Open(path)
	must(err)
	opens := func(name, path string) { _, err := transformer.Open(path); show(name, "", err) }
	reads := func(name, data string) { _, err := transformer.Read([]byte(data)); show(name, "", err) }
	makes := func(name string, o transformer.Options) { _, err := model.NewTranslator(o); show(name, "", err) }
	opens("missing", "nonesuch")
	opens("zero", "a\x00b")
	opens("broken", broken)
	reads("bytes", "no model")
	reads("empty", "")
	makes("option", transformer.Options{More: map[string]float64{"nonesuch": 1}})
	makes("value", transformer.Options{More: map[string]float64{"beam": 1.5}})
	makes("range", transformer.Options{Threads: 65})
	makes("language", transformer.Options{SourceLanguage: "xx", TargetLanguage: "yy"})

	translator, err := model.NewTranslator(transformer.Options{Threads: 2, Beam: 4, More: map[string]float64{"length_penalty": 0.6}})
	must(err)
	translate := func(name, text string) { made, err := translator.Translate(text); show(name, made, err) }
	translate("beam", "Die alte Brücke über den Fluss wurde gestern gesperrt.")
	translate("empty text", "")
	all, err := translator.TranslateAll([]string{"Guten Tag. This is the house of my brother."})
	show("counts", fmt.Sprint(all[0].Sentences, all[0].Cut, all[0].Left), err)
	all, err = translator.TranslateAll([]string{"Guten Tag.", "A\xff", "Danke."})
	must(err)
	for _, made := range all {
		show("not UTF-8", made.Text, made.Err)
	}

	given := 0
	stream := translator.Stream(func() (string, error) { given++; return "Guten Tag.", nil })
	for i := 0; i < 3 && stream.Next(); i++ {
		show("stopped", stream.Translation().Text, stream.Translation().Err)
	}
	stream.Close()
	fmt.Println("read ahead:", given < 100000 && !stream.Next())
	translate("after it", "Danke.")

	given = 0
	stream = translator.Stream(func() (string, error) {
		if given++; given == 2 {
			return "", errors.New("no more texts")
		}
		return "Guten Tag.", nil
	})
	for stream.Next() {
	}
	show("source", "", stream.Err())
	translate("after it", "Danke.")

	var group sync.WaitGroup
	var made [4]string
	for i := range made {
		group.Add(1)
		go func(i int) {
			defer group.Done()
			own, err := model.NewTranslator(transformer.Options{})
			must(err)
			made[i], err = own.Translate("Guten Tag.")
			must(err)
		}(i)
	}
	group.Wait()
	for _, text := range made {
		show("shared", text, nil)
	}

	must(model.Close())
	translate("model closed first", "Danke.")
	stream = translator.Stream(func() (string, error) { return "", io.EOF })
	translate("two streams", "Danke.")
	must(translator.Close())
	must(translator.Close())
	fmt.Println("stream of it:", stream.Next())
	translate("closed translator", "Danke.")
	makes("closed model", transformer.Options{})
}

func main() {
	switch path := os.Args[2]; os.Args[1] {
	case "checks":
		checks(path, os.Args[3])
	case "bytes":
		data, err := os.ReadFile(path)
		must(err)
		model, err := transformer.Read(data)
		lines(model, err, false)
	default:
		model, err := transformer.Open(path)
		lines(model, err, os.Args[1] == "plain")
	}
}
