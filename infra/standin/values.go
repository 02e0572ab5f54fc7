package main

import (
	"fmt"
	"hash/fnv"

	"github.com/hashicorp/terraform-plugin-go/tfprotov5"
	"github.com/hashicorp/terraform-plugin-go/tftypes"
)

const subscription = "/subscriptions/00000000-0000-0000-0000-000000000000"

// What is not known before a resource is there: what the provider computes and the configuration does not say. A value
// that is only written is kept nowhere.
func planned(block *tfprotov5.SchemaBlock, proposed tftypes.Value) (tftypes.Value, error) {
	if proposed.IsNull() || !proposed.IsKnown() {
		return proposed, nil
	}
	var fields map[string]tftypes.Value
	if err := proposed.As(&fields); err != nil {
		return proposed, err
	}
	for _, attribute := range block.Attributes {
		value := fields[attribute.Name]
		switch {
		case attribute.WriteOnly:
			fields[attribute.Name] = tftypes.NewValue(attribute.Type, nil)
		case attribute.Computed && value.IsNull():
			fields[attribute.Name] = tftypes.NewValue(attribute.Type, tftypes.UnknownValue)
		}
	}
	for _, nested := range block.BlockTypes {
		value, err := plannedNested(nested, fields[nested.TypeName])
		if err != nil {
			return proposed, fmt.Errorf("%s: %w", nested.TypeName, err)
		}
		fields[nested.TypeName] = value
	}
	return tftypes.NewValue(proposed.Type(), fields), nil
}

func plannedNested(nested *tfprotov5.SchemaNestedBlock, value tftypes.Value) (tftypes.Value, error) {
	if value.IsNull() || !value.IsKnown() {
		return value, nil
	}
	switch nested.Nesting {
	case tfprotov5.SchemaNestedBlockNestingModeSingle, tfprotov5.SchemaNestedBlockNestingModeGroup:
		return planned(nested.Block, value)
	case tfprotov5.SchemaNestedBlockNestingModeList, tfprotov5.SchemaNestedBlockNestingModeSet:
		var elements []tftypes.Value
		if err := value.As(&elements); err != nil {
			return value, err
		}
		for i, element := range elements {
			inner, err := planned(nested.Block, element)
			if err != nil {
				return value, err
			}
			elements[i] = inner
		}
		return tftypes.NewValue(value.Type(), elements), nil
	default:
		return value, fmt.Errorf("nesting %v is not known here", nested.Nesting)
	}
}

// Puts made-up values where the cloud would have answered.
func made(resource string, plan tftypes.Value) (tftypes.Value, error) {
	var fields map[string]tftypes.Value
	if err := plan.As(&fields); err != nil {
		return plan, err
	}
	name := resource
	if given, known := fields["name"]; known && given.IsKnown() && !given.IsNull() {
		if err := given.As(&name); err != nil {
			return plan, err
		}
	}
	return tftypes.Transform(plan, func(path *tftypes.AttributePath, value tftypes.Value) (tftypes.Value, error) {
		if value.IsKnown() {
			return value, nil
		}
		return madeUp(resource, name, lastName(path), value.Type()), nil
	})
}

func madeUp(resource, name, attribute string, typ tftypes.Type) tftypes.Value {
	switch {
	case typ.Is(tftypes.String):
		return tftypes.NewValue(typ, madeUpString(resource, name, attribute))
	case typ.Is(tftypes.Number):
		return tftypes.NewValue(typ, 0)
	case typ.Is(tftypes.Bool):
		return tftypes.NewValue(typ, false)
	case typ.Is(tftypes.List{}), typ.Is(tftypes.Set{}):
		return tftypes.NewValue(typ, []tftypes.Value{})
	case typ.Is(tftypes.Map{}):
		return tftypes.NewValue(typ, map[string]tftypes.Value{})
	default:
		return tftypes.NewValue(typ, nil)
	}
}

func madeUpString(resource, name, attribute string) string {
	switch attribute {
	case "id":
		return fmt.Sprintf("%s/standin/%s/%s", subscription, resource, name)
	case "ip_address", "private_ip_address", "public_ip_address", "public_ip", "address":
		// TEST-NET-2 (RFC 5737): nobody's.
		hash := fnv.New32a()
		hash.Write([]byte(resource + name))
		return fmt.Sprintf("198.51.100.%d", 1+hash.Sum32()%254)
	default:
		return "made-up"
	}
}

func lastName(path *tftypes.AttributePath) string {
	steps := path.Steps()
	for i := len(steps) - 1; i >= 0; i-- {
		if name, is := steps[i].(tftypes.AttributeName); is {
			return string(name)
		}
	}
	return ""
}
