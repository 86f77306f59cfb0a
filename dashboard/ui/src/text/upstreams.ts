/** Members of upstreams, as a proxy lists them, and what is said of a change to one. */

export interface Member {
  upstream: string
  member: string
  state: string
  weight: number
  share: number
  priority: number
  zone: string
  connections: number
  blocked: number
  failures: number
  retries: number
  ejections: number
  ejected_for: number
  connect_seconds: number | null
  tls_handshakes: number
  token_renewals: { renewed: number; failed: number } | null
  last_failure: string
  in_panic: boolean
  login_queue: number
}

export interface Group {
  name: string
  members: Member[]
  /** How many members take new clients. */
  usable: number
  connections: number
  /** Clients that wait to log in. */
  queue: number
  isInPanic: boolean
  renewals: Member['token_renewals']
}

/** Whether a member is left out because it fails. */
export function isOut(member: Member): boolean {
  return member.state === 'down' || member.state === 'ejected'
}

/** The members by upstream, in the order of the list. */
export function groupsOf(members: readonly Member[]): Group[] {
  const found = new Map<string, Group>()
  for (const each of members) {
    let group = found.get(each.upstream)
    if (!group) {
      group = {
        name: each.upstream,
        members: [],
        usable: 0,
        connections: 0,
        queue: each.login_queue,
        isInPanic: each.in_panic,
        renewals: each.token_renewals,
      }
      found.set(each.upstream, group)
    }
    group.members.push(each)
    group.connections += each.connections
    if (each.weight > 0 && (each.state === 'up' || each.state === 'slow start')) group.usable += 1
  }
  return [...found.values()]
}

export interface MemberChange {
  kind: 'drain' | 'eject' | 'weight' | 'rebalance'
  member: Member
}

export interface ChangeText {
  title: string
  label: string
  /** The key of the number in the request. */
  key: 'rate' | 'seconds' | 'weight'
  /** The number that is proposed. */
  value: number
  least: number
  most: number
  about: string
  button: string
  done: string
}

/** What is asked, and said, before and after a change. */
export function changeText({ kind, member }: MemberChange): ChangeText {
  const name = member.member
  switch (kind) {
    case 'drain':
      return {
        title: `Drain ${name}`,
        label: 'Clients a second that are told to reconnect',
        key: 'rate',
        value: 0,
        least: 0,
        most: 10_000,
        about: 'It takes no new clients until it is restored. With 0, its present clients stay.',
        button: 'Drain it',
        done: `${name} takes no new clients`,
      }
    case 'eject':
      return {
        title: `Eject ${name}`,
        label: 'Seconds',
        key: 'seconds',
        value: 300,
        least: 1,
        most: 86_400,
        about: 'It takes no new clients for this time, unless no other member can. Its present clients stay.',
        button: 'Eject it',
        done: `${name} is left out`,
      }
    case 'weight':
      return {
        title: `Weight of ${name}`,
        label: 'Weight',
        key: 'weight',
        value: member.weight,
        least: 0,
        most: 1000,
        about: 'Its share of new clients, in proportion to the others’ weights; 0 for none. It lasts until the config has another one, or the proxy ends.',
        button: 'Set it',
        done: `${name} has another weight`,
      }
    case 'rebalance':
      return {
        title: `Rebalance ${member.upstream}`,
        label: 'Clients a second that are told to reconnect',
        key: 'rate',
        value: 50,
        least: 1,
        most: 10_000,
        about: 'Clients of members that have more than their share are told to reconnect, for instance after a member has returned.',
        button: 'Rebalance it',
        done: `${member.upstream} is rebalanced`,
      }
  }
}

/** Where the API has an upstream. */
export function upstreamPath(source: number, name: string): string {
  return `/sources/${source}/upstreams/${encodeURIComponent(name)}`
}

/** Where the API has a member. */
export function memberPath(source: number, member: Member): string {
  return `${upstreamPath(source, member.upstream)}/members/${encodeURIComponent(member.member)}`
}
