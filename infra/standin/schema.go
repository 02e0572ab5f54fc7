package main

import (
	"embed"
	"encoding/json"
	"fmt"
	"sort"

	"github.com/hashicorp/terraform-plugin-go/tfprotov5"
	"github.com/hashicorp/terraform-plugin-go/tftypes"
)

// A file for each provider, named as it is.
//
//go:embed schemas/*.json
var schemaFiles embed.FS

// As `terraform providers schema -json` writes them, and whence they are.
type schemaFile struct {
	Source    string                `json:"source"`
	Version   string                `json:"version"`
	Provider  schemaJSON            `json:"provider"`
	Resources map[string]schemaJSON `json:"resource_schemas"`
	Data      map[string]schemaJSON `json:"data_source_schemas"`
}

type schemaJSON struct {
	Version int64     `json:"version"`
	Block   blockJSON `json:"block"`
}

type blockJSON struct {
	Attributes map[string]attributeJSON `json:"attributes"`
	Blocks     map[string]nestedJSON    `json:"block_types"`
}

type attributeJSON struct {
	Type      json.RawMessage `json:"type"`
	Required  bool            `json:"required"`
	Optional  bool            `json:"optional"`
	Computed  bool            `json:"computed"`
	Sensitive bool            `json:"sensitive"`
	WriteOnly bool            `json:"write_only"`
}

type nestedJSON struct {
	Nesting  string    `json:"nesting_mode"`
	Block    blockJSON `json:"block"`
	MinItems int64     `json:"min_items"`
	MaxItems int64     `json:"max_items"`
}

func schemasOf(provider string) (file schemaFile, err error) {
	text, err := schemaFiles.ReadFile("schemas/" + provider + ".json")
	if err != nil {
		return file, err
	}
	if err = json.Unmarshal(text, &file); err != nil {
		err = fmt.Errorf("%s.json: %w", provider, err)
	}
	return file, err
}

func protocolsOf(of map[string]schemaJSON) (map[string]*tfprotov5.Schema, error) {
	protocols := map[string]*tfprotov5.Schema{}
	for name, schema := range of {
		protocol, err := schema.protocol()
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		protocols[name] = protocol
	}
	return protocols, nil
}

var nestings = map[string]tfprotov5.SchemaNestedBlockNestingMode{
	"single": tfprotov5.SchemaNestedBlockNestingModeSingle,
	"group":  tfprotov5.SchemaNestedBlockNestingModeGroup,
	"list":   tfprotov5.SchemaNestedBlockNestingModeList,
	"set":    tfprotov5.SchemaNestedBlockNestingModeSet,
	"map":    tfprotov5.SchemaNestedBlockNestingModeMap,
}

func (s schemaJSON) protocol() (*tfprotov5.Schema, error) {
	block, err := s.Block.protocol()
	return &tfprotov5.Schema{Version: s.Version, Block: block}, err
}

func (b blockJSON) protocol() (*tfprotov5.SchemaBlock, error) {
	block := &tfprotov5.SchemaBlock{}
	for _, name := range sorted(b.Attributes) {
		attribute := b.Attributes[name]
		typ, err := tftypes.ParseJSONType(attribute.Type)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		block.Attributes = append(block.Attributes, &tfprotov5.SchemaAttribute{
			Name:      name,
			Type:      typ,
			Required:  attribute.Required,
			Optional:  attribute.Optional,
			Computed:  attribute.Computed,
			Sensitive: attribute.Sensitive,
			WriteOnly: attribute.WriteOnly,
		})
	}
	for _, name := range sorted(b.Blocks) {
		nested := b.Blocks[name]
		inner, err := nested.Block.protocol()
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		nesting, known := nestings[nested.Nesting]
		if !known {
			return nil, fmt.Errorf("%s: nesting %q", name, nested.Nesting)
		}
		block.BlockTypes = append(block.BlockTypes, &tfprotov5.SchemaNestedBlock{
			TypeName: name,
			Block:    inner,
			Nesting:  nesting,
			MinItems: nested.MinItems,
			MaxItems: nested.MaxItems,
		})
	}
	return block, nil
}

func sorted[T any](m map[string]T) []string {
	names := make([]string, 0, len(m))
	for name := range m {
		names = append(names, name)
	}
	sort.Strings(names)
	return names
}
