// Command hello translates the texts of the command line: go run ./hello MODEL TEXT ...
package main

import (
	"fmt"
	"log"
	"os"

	"transformer"
)

func main() {
	if len(os.Args) < 2 {
		log.Fatal("usage: hello MODEL TEXT ...")
	}
	model, err := transformer.Open(os.Args[1])
	if err != nil {
		log.Fatal(err)
	}
	defer model.Close()
	translator, err := model.NewTranslator(transformer.Options{Threads: 2})
	if err != nil {
		log.Fatal(err)
	}
	defer translator.Close()
	all, err := translator.TranslateAll(os.Args[2:])
	if err != nil {
		log.Fatal(err)
	}
	for _, translation := range all {
		if translation.Err != nil {
			log.Fatal(translation.Err)
		}
		fmt.Println(translation.Text)
	}
}
