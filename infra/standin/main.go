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
	// Otherwise five lines and more for each request, which the tool reads and throws away: a twentieth of a plan.
	os.Setenv("TF_LOG_SDK", "off")
	if len(os.Args) == 3 && os.Args[1] == "-version" {
		// A provider's place in a mirror is named by it.
		os.Stdout.WriteString(loaded(os.Args[2]).Version + "\n")
		return
	}
	if len(os.Args) == 3 && os.Args[1] == "-serve" {
		if err := serveTill(os.Stdin, os.Stdout, os.Args[2], providerOf(loaded(os.Args[2]))); err != nil {
			log.Fatal(err)
		}
		return
	}
	own := regexp.MustCompile(`^terraform-provider-(\w+)_v`).FindStringSubmatch(filepath.Base(os.Args[0]))
	if own == nil {
		log.Fatalf("%s: not named as a provider is", os.Args[0])
	}
	schemas := loaded(own[1])
	provider := providerOf(schemas)
	err := tf5server.Serve(schemas.Source, func() tfprotov5.ProviderServer { return provider })
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

func providerOf(schemas schemaFile) tfprotov5.ProviderServer {
	provider, err := newProvider(schemas)
	if err != nil {
		log.Fatal(err)
	}
	return provider
}
