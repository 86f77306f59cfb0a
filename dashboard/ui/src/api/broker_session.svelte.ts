import { get, post, remove } from './http'

/** The broker's user with which this browser makes changes; null where nobody has logged in. */
export interface BrokerUser {
  user: string | null
  tags: string[]
  address: string
  tls: boolean
  api: string
}

export interface BrokerCredentials {
  user: string
  password: string
  address: string
  tls: boolean
  api: string
}

/** The login to the broker of one source; passwords stay on the server. */
export class BrokerSession {
  current: BrokerUser | null = $state.raw(null)
  readonly #path: string

  constructor(source: number) {
    this.#path = `/sources/${source}/broker/login`
  }

  get isIn(): boolean {
    return this.current !== null && this.current.user !== null
  }

  async look(): Promise<void> {
    try {
      this.current = await get<BrokerUser>(this.#path)
    } catch {
      this.current = null // a password that was changed meanwhile: one can log in anew
    }
  }

  async enter(credentials: BrokerCredentials): Promise<void> {
    this.current = await post<BrokerUser>(this.#path, credentials)
  }

  async leave(): Promise<void> {
    this.current = await remove<BrokerUser>(this.#path)
  }
}
