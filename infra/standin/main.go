// The stand-in provider: serves the schemas of a real provider (schemas/), so that Terraform and OpenTofu validate and
// plan the labs without an account and without the Internet. Whose, its own file's name says, as in
// terraform-provider-aws_v6.47.1. It makes nothing anywhere: what a real cloud would answer is made up (values.go). Of a
// real provider's own checks it knows none.
package main

import (
	"log"
	"os"
	"path/filepath"
	"regexp"

	"github.com/hashicorp/terraform-plugin-go/tfprotov5"
	"github.com/hashicorp/terraform-plugin-go/tfprotov5/tf5server"
)

func main() {
	if len(os.Args) == 3 && os.Args[1] == "-version" {
		// A provider's place in a mirror is named by it.
		os.Stdout.WriteString(loaded(os.Args[2]).Version + "\n")
		return
	}
	own := regexp.MustCompile(`^terraform-provider-(\w+)_v`).FindStringSubmatch(filepath.Base(os.Args[0]))
	if own == nil {
		log.Fatalf("%s: not named as a provider is", os.Args[0])
	}
	schemas := loaded(own[1])
	provider, err := newProvider(schemas)
	if err != nil {
		log.Fatal(err)
	}
	err = tf5server.Serve(schemas.Source, func() tfprotov5.ProviderServer { return provider })
	if err != nil {
		log.Fatal(err)
	}
}

func loaded(provider string) schemaFile {
	schemas, err := schemasOf(provider)
	if err != nil {
		log.Fatal(err)
	}
	return schemas
}
