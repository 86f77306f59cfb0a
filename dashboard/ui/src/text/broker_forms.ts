/** Changes of the broker as forms: what is asked, and what is sent. */
import type { Binding, BrokerQueue, BrokerUser, Exchange, Permission, Policy } from '../api/broker'
import type { Table, Value } from '../api/types'

export interface FormField {
  name: string
  label: string
  kind: 'text' | 'password' | 'number' | 'flag' | 'choice' | 'json' | 'area'
  value: string | number | boolean
  choices?: string[]
  required?: boolean
  /** Shown, and not to be changed. */
  fixed?: boolean
  hint?: string
}

export interface ChangeForm {
  change: string
  title: string
  button: string
  done: string
  /** What is sent besides the fields. */
  keys: Table
  fields: FormField[]
  /** What it does, where that is not plain. */
  about?: string
  /** Whether it destroys something. */
  isDanger?: boolean
}

export type Values = Record<string, string | number | boolean>

const KINDS = ['all', 'queues', 'classic_queues', 'quorum_queues', 'streams', 'exchanges']
const TAGS = 'administrator, policymaker, monitoring, management'

function text(name: string, label: string, value = '', more: Partial<FormField> = {}): FormField {
  return { name, label, kind: 'text', value, ...more }
}

function flag(name: string, label: string, value = false): FormField {
  return { name, label, kind: 'flag', value }
}

function json(label: string, value: Table = {}, name = 'arguments', hint = ''): FormField {
  return { name, label, kind: 'json', value: JSON.stringify(value, null, 2), hint }
}

function vhostField(vhost: string, fixed = false): FormField {
  return text('vhost', 'Virtual host', vhost, { required: true, fixed })
}

/** What a form sends; raises an error where a text is not JSON. */
export function changeOf(form: ChangeForm, values: Values): Table {
  const sent: Table = { change: form.change, ...form.keys }
  for (const field of form.fields) {
    const value = values[field.name] ?? field.value
    if (field.kind === 'json') sent[field.name] = parsed(field, String(value))
    else if (field.kind === 'area') sent[field.name] = base64(String(value))
    else if (field.kind === 'password' && value === '') continue
    else sent[field.name] = value
  }
  if ('type' in sent && form.change === 'declare-queue') {
    sent.arguments = { ...(sent.arguments as Table), 'x-queue-type': sent.type as Value }
    delete sent.type
  }
  if (typeof sent.tags === 'string') sent.tags = sent.tags.split(/[\s,]+/).filter(Boolean)
  return sent
}

function parsed(field: FormField, text: string): Table {
  let value: unknown
  try {
    value = JSON.parse(text.trim() || '{}')
  } catch (problem) {
    throw new Error(`${field.label}: not JSON: ${(problem as Error).message}`)
  }
  if (value === null || typeof value !== 'object' || Array.isArray(value)) throw new Error(`${field.label}: not an object such as {}`)
  return value as Table
}

function base64(text: string): string {
  return btoa(Array.from(new TextEncoder().encode(text), (each) => String.fromCharCode(each)).join(''))
}

export function declareQueue(vhost: string): ChangeForm {
  return {
    change: 'declare-queue',
    title: 'Declare a queue',
    button: 'Declare it',
    done: 'The queue is declared',
    keys: {},
    fields: [
      text('name', 'Name', '', { required: true }),
      vhostField(vhost),
      { name: 'type', label: 'Type', kind: 'choice', value: 'classic', choices: ['classic', 'quorum', 'stream'] },
      flag('durable', 'Durable: it is there after a restart', true),
      flag('auto_delete', 'Delete it when its last consumer has gone'),
      json('Arguments, as JSON', {}, 'arguments', 'such as {"x-max-length": 1000}'),
    ],
  }
}

export function deleteQueue(queue: BrokerQueue): ChangeForm {
  const messages = queue.ready + queue.unacked
  return {
    change: 'delete-queue',
    title: `Delete queue ${queue.name}`,
    button: 'Delete it',
    done: `${queue.name} is deleted`,
    keys: { name: queue.name, vhost: queue.vhost },
    fields: [flag('if_empty', 'Only if it is empty'), flag('if_unused', 'Only if it has no consumers')],
    about: `${messages} messages are lost, ${queue.consumers} consumers cancelled, and its bindings removed.`,
    isDanger: true,
  }
}

export function purgeQueue(queue: BrokerQueue): ChangeForm {
  return {
    change: 'purge-queue',
    title: `Purge queue ${queue.name}`,
    button: 'Purge it',
    done: `${queue.name} is purged`,
    keys: { name: queue.name, vhost: queue.vhost },
    fields: [],
    about: `${queue.ready} messages that wait are lost, and are not dead-lettered. The ${queue.unacked} unacknowledged ones stay.`,
    isDanger: true,
  }
}

export function bindTo(vhost: string, destination: string): ChangeForm {
  return {
    change: 'bind',
    title: `Bind queue ${destination}`,
    button: 'Bind it',
    done: `${destination} is bound`,
    keys: { vhost, destination, destination_type: 'queue' },
    fields: [text('source', 'Exchange', '', { required: true }), text('routing_key', 'Routing key'), json('Arguments, as JSON')],
  }
}

export function unbind(binding: Binding): ChangeForm {
  const { vhost, source, destination, destination_type, properties_key } = binding
  return {
    change: 'unbind',
    title: `Unbind ${destination} from ${source}`,
    button: 'Unbind it',
    done: 'The binding is removed',
    keys: { vhost, source, destination, destination_type, properties_key },
    fields: [],
    about: `The exchange no longer routes ${binding.routing_key || 'messages'} there.`,
    isDanger: true,
  }
}

export function publishTo(vhost: string, exchange: string, routingKey: string): ChangeForm {
  return {
    change: 'publish',
    title: 'Publish a message',
    button: 'Publish it',
    done: 'It is published',
    keys: {},
    fields: [
      vhostField(vhost),
      text('exchange', 'Exchange', exchange, { hint: 'empty: the default exchange' }),
      text('routing_key', 'Routing key', routingKey),
      json('Properties, as JSON', { delivery_mode: 2 }, 'properties'),
      { name: 'body', label: 'Body', kind: 'area', value: '' },
    ],
  }
}

export function declareExchange(vhost: string): ChangeForm {
  return {
    change: 'declare-exchange',
    title: 'Declare an exchange',
    button: 'Declare it',
    done: 'The exchange is declared',
    keys: {},
    fields: [
      text('name', 'Name', '', { required: true }),
      vhostField(vhost),
      { name: 'type', label: 'Type', kind: 'choice', value: 'topic', choices: ['direct', 'fanout', 'topic', 'headers'] },
      flag('durable', 'Durable: it is there after a restart', true),
      flag('auto_delete', 'Delete it when its last binding has gone'),
      flag('internal', 'Internal: only exchanges send to it'),
      json('Arguments, as JSON'),
    ],
  }
}

export function deleteExchange(exchange: Exchange): ChangeForm {
  return {
    change: 'delete-exchange',
    title: `Delete exchange ${exchange.name}`,
    button: 'Delete it',
    done: `${exchange.name} is deleted`,
    keys: { name: exchange.name, vhost: exchange.vhost },
    fields: [flag('if_unused', 'Only if nothing is bound to it')],
    about: 'Its bindings are removed; clients that publish to it get a channel error.',
    isDanger: true,
  }
}

export function putPolicy(vhost: string, isOperator: boolean, policy?: Policy): ChangeForm {
  const noun = isOperator ? 'operator policy' : 'policy'
  return {
    change: 'put-policy',
    title: policy ? `Edit ${noun} ${policy.name}` : `Set ${isOperator ? 'an' : 'a'} ${noun}`,
    button: 'Save it',
    done: 'The policy is set',
    keys: { is_operator: isOperator },
    fields: [
      text('name', 'Name', policy?.name, { required: true, fixed: policy !== undefined }),
      vhostField(policy?.vhost ?? vhost, policy !== undefined),
      text('pattern', 'Pattern: a regular expression that is found in the name', policy?.pattern ?? '', { required: true }),
      { name: 'apply_to', label: 'Applies to', kind: 'choice', value: policy?.['apply-to'] ?? (isOperator ? 'queues' : 'all'), choices: KINDS },
      { name: 'priority', label: 'Priority: of several that match, the highest applies', kind: 'number', value: policy?.priority ?? 0 },
      json('Definition, as JSON', policy?.definition ?? {}, 'definition', 'such as {"max-length": 1000}'),
    ],
  }
}

export function deletePolicy(policy: Policy, isOperator: boolean): ChangeForm {
  return {
    change: 'delete-policy',
    title: `Remove policy ${policy.name}`,
    button: 'Remove it',
    done: `${policy.name} is removed`,
    keys: { name: policy.name, vhost: policy.vhost, is_operator: isOperator },
    fields: [],
    about: 'Queues and exchanges lose at once what it sets, or get what the next policy that matches sets.',
    isDanger: true,
  }
}

export function putUser(user?: BrokerUser): ChangeForm {
  return {
    change: 'put-user',
    title: user ? `Edit user ${user.name}` : 'Add a user',
    button: 'Save it',
    done: 'The user is saved',
    keys: {},
    fields: [
      text('name', 'Name', user?.name, { required: true, fixed: user !== undefined }),
      { name: 'password', label: 'Password', kind: 'password', value: '', required: user === undefined, hint: user ? 'empty: it stays' : '' },
      text('tags', 'Tags', user?.tags.join(', '), { hint: TAGS }),
    ],
  }
}

export function deleteUser(user: BrokerUser): ChangeForm {
  return {
    change: 'delete-user',
    title: `Delete user ${user.name}`,
    button: 'Delete it',
    done: `${user.name} is deleted`,
    keys: { name: user.name },
    fields: [],
    about: 'Its connections are closed, and its permissions removed.',
    isDanger: true,
  }
}

export function putPermission(vhost: string, permission?: Permission): ChangeForm {
  const isOld = permission !== undefined
  return {
    change: 'put-permission',
    title: isOld ? `Edit permissions of ${permission.user}` : 'Give permissions',
    button: 'Save them',
    done: 'The permissions are set',
    keys: {},
    fields: [
      text('user', 'User', permission?.user, { required: true, fixed: isOld }),
      vhostField(permission?.vhost ?? vhost, isOld),
      text('configure', 'May declare and delete: a pattern of names', permission?.configure ?? '.*'),
      text('write', 'May publish and bind: a pattern of names', permission?.write ?? '.*'),
      text('read', 'May consume, purge and bind: a pattern of names', permission?.read ?? '.*'),
    ],
  }
}

export function deletePermission(permission: Permission): ChangeForm {
  return {
    change: 'delete-permission',
    title: `Remove permissions of ${permission.user}`,
    button: 'Remove them',
    done: 'The permissions are removed',
    keys: { user: permission.user, vhost: permission.vhost },
    fields: [],
    about: `The user can no longer use the virtual host ${permission.vhost}.`,
    isDanger: true,
  }
}
