// The stand-in provider: serves the schemas of the real azurerm provider (schemas.json), so that Terraform and
// OpenTofu validate and plan the labs without an account and without the Internet. It makes nothing anywhere: what
// a real cloud would answer is made up (values.go). Of a real provider's own checks it knows none.
package main

import (
	"log"
	"os"

	"github.com/hashicorp/terraform-plugin-go/tfprotov5"
	"github.com/hashicorp/terraform-plugin-go/tfprotov5/tf5server"
)

func main() {
	if len(os.Args) == 2 && os.Args[1] == "-version" {
		// Its place in a mirror is named by it.
		os.Stdout.WriteString(schemas.Version + "\n")
		return
	}
	provider, err := newProvider()
	if err != nil {
		log.Fatal(err)
	}
	err = tf5server.Serve(schemas.Source, func() tfprotov5.ProviderServer { return provider })
	if err != nil {
		log.Fatal(err)
	}
}
